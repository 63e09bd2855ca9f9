"""Labels: off and on again without a change, and matched with what comes along."""

from __future__ import annotations

from typing import Any

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from xr_lstsq import labels
from xr_lstsq.errors import DtypeError, LabelError


def plain() -> xr.DataArray:
    return xr.DataArray(
        np.arange(24.0).reshape(2, 3, 4),
        {
            "time": np.array(["2020-01-01", "2020-01-13"], "datetime64[ns]"),
            "y": ("y", [30.0, 20.0, 10.0], {"axis": "Y"}),
            "x": [0.5, 1.5, 2.5, 3.5],
            "lon": (("y", "x"), np.ones((3, 4))),
            "orbit": ("time", ["a", "d"]),
            "spatial_ref": ((), 0, {"crs_wkt": "EPSG:4326"}),
        },
        ("time", "y", "x"),
        name="ndvi",
        attrs={"units": "1", "_FillValue": -9999},
    )


def with_encoding() -> xr.DataArray:
    cube = plain()
    cube.encoding = {"grid_mapping": "spatial_ref", "scale_factor": 0.1}
    return cube


CUBES = {
    "plain": plain,
    "encoding": with_encoding,
    "lazy": lambda: plain().chunk(y=2),
    "dims in another order": lambda: plain().transpose("x", "time", "y"),
    "no name and no coordinates": lambda: xr.DataArray(np.zeros((2, 3)), dims=("time", "x")),
    "pixels stacked to a MultiIndex": lambda: plain().stack(pixel=("y", "x")),
    "samples stacked to a MultiIndex": lambda: plain().stack(sample=("time", "y")),
    "cftime": lambda: plain().assign_coords(
        time=[cftime.Datetime360Day(2000, 1, 30), cftime.Datetime360Day(2000, 2, 30)]
    ),
    "one series": lambda: plain()[:, 0, 0],
}


@pytest.mark.parametrize("name", CUBES)
def test_restore_is_the_inverse_of_strip(name: str) -> None:
    cube = CUBES[name]()
    again = labels.restore(*labels.strip(cube))
    xr.testing.assert_identical(again, cube)
    assert again.encoding == cube.encoding
    assert again.chunks == cube.chunks
    assert dict(again.xindexes).keys() == dict(cube.xindexes).keys()


def test_an_answer_keeps_what_does_not_stand_along_the_samples() -> None:
    data, stripped = labels.strip(plain())
    answer = labels.restore(
        data, stripped, ("param", "y", "x"), extra=xr.Coordinates({"param": ["a", "b"]})
    )
    assert set(answer.coords) == {"param", "y", "x", "lon", "spatial_ref"}
    assert answer["y"].attrs == {"axis": "Y"}
    assert answer.name is None
    assert answer.attrs == {}


def test_both_levels_of_an_index_of_pixels_are_kept() -> None:
    data, stripped = labels.strip(CUBES["pixels stacked to a MultiIndex"]())
    answer = labels.restore(data[0], stripped, ("pixel",))
    assert isinstance(answer.indexes["pixel"], pd.MultiIndex)


@pytest.mark.parametrize(
    ("attrs", "encoding", "want"),
    [
        ({}, {"grid_mapping": "crs"}, "crs"),
        ({"grid_mapping": "crs"}, {}, "crs"),
        ({}, {}, "spatial_ref"),
    ],
)
def test_the_grid_mapping_is_found_wherever_it_stands(
    attrs: dict[str, str], encoding: dict[str, str], want: str
) -> None:
    cube = plain()
    cube.attrs, cube.encoding = attrs, encoding
    assert labels.grid_mapping(labels.strip(cube)[1]) == want


def test_there_may_be_no_grid_mapping() -> None:
    assert labels.grid_mapping(labels.strip(plain().drop_vars("spatial_ref"))[1]) is None


def test_attributes_of_the_stored_numbers_are_not_those_of_the_fit() -> None:
    cube = plain()
    cube.attrs |= {
        "scale_factor": 1, "valid_range": [0, 1], "flag_values": [1], "standard_name": "s",
        "cell_methods": "time: mean", "long_name": "kept",
    }  # fmt: skip
    assert labels.data_attrs(labels.strip(cube)[1]) == {"units": "1", "long_name": "kept"}


# --------------------------------------------------------------------------------------------
# Matching


def along(dim: str, values: Any, **more: Any) -> xr.DataArray:
    data = np.arange(float(len(values)))
    return xr.DataArray(data, {dim: values}, (dim,), **more)


def series(dim: str, values: Any) -> xr.DataArray:
    return along(dim, values, name="ndvi")


def test_equal_labels_are_taken_as_they_are_duplicates_too() -> None:
    days = np.array(["2020-01-01", "2020-01-01", "NaT"], "datetime64[ns]")
    operand = along("time", days)
    assert labels.match(operand, series("time", days), "weights") is operand


def test_the_same_labels_in_another_order_are_reordered() -> None:
    got = labels.match(along("band", ["r", "g", "b"]), series("band", ["b", "r", "g"]), "design")
    assert got.values.tolist() == [2.0, 0.0, 1.0]
    assert got["band"].values.tolist() == ["b", "r", "g"]


def test_a_multi_index_is_reordered_too() -> None:
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=("first", "second"))
    cube = xr.DataArray(
        np.zeros(3), xr.Coordinates.from_pandas_multiindex(index, "pair"), name="unw"
    )
    operand = cube.copy(data=np.arange(3.0)).isel(pair=[2, 0, 1])
    assert labels.match(operand, cube, "weights").values.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("shift", [0.0499, -0.0499])
def test_numbers_off_by_rounding_are_the_same(shift: float) -> None:
    x = np.array([10.0, 20.0, 25.0])
    operand = along("x", x + 5 * shift)
    assert labels.match(operand, series("x", x), "valid") is operand


@pytest.mark.parametrize("values", [[10.0, 20.0, 25.3], [11.0, 21.0, 26.0]])
def test_numbers_off_by_more_are_refused_with_the_largest_difference(values: list[float]) -> None:
    gap = max(abs(a - b) for a, b in zip(values, [10.0, 20.0, 25.0], strict=True))
    with pytest.raises(
        LabelError, match=rf"valid has other labels along 'x' than 'ndvi'.*up to {gap:g}\. .*"
        r"valid = valid\.reindex_like\(ndvi\['x'\], method='nearest'\)",
    ):  # fmt: skip
        labels.match(along("x", values), series("x", [10.0, 20.0, 25.0]), "valid")


def test_one_label_matches_up_to_float32() -> None:
    cube = series("x", [500_000.1])
    labels.match(along("x", np.array([500_000.1], np.float32)), cube, "weights")
    with pytest.raises(LabelError):
        labels.match(along("x", [500_001.0]), cube, "weights")


def test_other_sizes_are_refused_with_both() -> None:
    with pytest.raises(LabelError, match="design has 2 labels along 'x' where 'ndvi' has 3"):
        labels.match(along("x", [1.0, 2.0]), series("x", [1.0, 2.0, 3.0]), "design")


def test_dates_of_another_kind_are_refused_with_an_example() -> None:
    dates = np.array(["2000-01-01", "2000-01-02"], "datetime64[ns]")
    other = [cftime.DatetimeNoLeap(2000, 1, 1), cftime.DatetimeNoLeap(2000, 1, 2)]
    with pytest.raises(LabelError, match="2 of the cube's are not in it, for example"):
        labels.match(along("time", other), series("time", dates), "weights")


def test_without_labels_on_both_sides_sizes_decide() -> None:
    bare = xr.DataArray(np.zeros(3), dims="time")
    cube = series("time", [1, 2, 3])
    assert labels.match(bare, cube, "weights") is bare
    assert labels.match(cube, bare, "weights") is cube
    with pytest.raises(LabelError, match=r"weights has 3 values along 'time', and 'ndvi' has 2"):
        labels.match(bare, series("time", [1, 2]), "weights")


# --------------------------------------------------------------------------------------------
# Choosing


def test_the_sample_dim_is_found() -> None:
    assert labels.find_dim(plain(), None, None) == "time"
    assert labels.find_dim(CUBES["cftime"](), None, None) == "time"
    assert labels.find_dim(plain(), None, ("y",)) == "y"
    assert labels.find_dim(plain(), "x", ("y",)) == "x"


@pytest.mark.parametrize(
    ("shared", "message"),
    [
        (("y", "x"), r"design has the dims \('y', 'x'\).*cannot be told. Pass dim='time'"),
        (("band",), r"design has the dims \('band',\).*Pass dim='time'"),
    ],
)
def test_a_labelled_design_that_does_not_tell_the_dim_is_refused(
    shared: tuple[str, ...], message: str
) -> None:
    with pytest.raises(LabelError, match=message):
        labels.find_dim(plain(), None, shared)


def test_a_cube_with_two_axes_of_dates_needs_dim() -> None:
    twice = plain().assign_coords(y=np.array(["2000", "2001", "2002"], "datetime64[ns]"))
    with pytest.raises(LabelError, match=r"2 of them hold dates. Pass dim="):
        labels.find_dim(twice, None, None)


def test_variables_are_chosen_by_what_they_hold() -> None:
    cube = plain()
    flags = xr.zeros_like(cube, dtype="int8").assign_attrs(flag_values=[0, 1])
    cubes = xr.Dataset(
        {
            "ndvi": cube, "scl": flags, "cloud": cube > 3, "w": cube,
            "height": cube[0].drop_vars("orbit"), "phase": cube * 1j,
            "time_bnds": (("time", "y"), np.zeros((2, 3))),
        }
    )  # fmt: skip
    cubes["time"].attrs["bounds"] = "time_bnds"
    chosen = labels.choose(cubes, "time", None, ["w"])
    assert chosen.fitted == ("ndvi",)
    assert chosen.left_out == {
        "scl": "holds flags",
        "cloud": "dtype bool",
        "w": "named in weights or valid",
        "height": "not along 'time'",
        "phase": "dtype complex128",
        "time_bnds": "holds bounds",
    }
    assert labels.choose(cubes, "time", "w", []).fitted == ("w",)


def test_all_bad_names_are_told_at_once() -> None:
    cubes = xr.Dataset({"a": plain() * 1j, "b": plain() > 3, "c": plain()[0].drop_vars("orbit")})
    with pytest.raises(DtypeError, match=r"'a' has the dtype complex.*'b' has the dtype bool"):
        labels.choose(cubes, "time", ["a", "b"], [])
    with pytest.raises(LabelError, match=r"\['c'\], which are not along 'time'"):
        labels.choose(cubes, "time", ["c"], [])
    with pytest.raises(LabelError, match=r"data has \['d'\].*variables \['a', 'b', 'c'\]"):
        labels.choose(cubes, "time", ["d"], [])


def test_names_of_the_fit_are_refused_where_the_cube_has_them() -> None:
    names = ("coef", "rank")
    cube = plain().assign_coords(rank=("y", [1, 2, 3]))
    with pytest.raises(LabelError, match=r"called \['rank'\].*drop_vars\(\['rank'\]\)"):
        labels.refuse_taken(cube, "time", names, {"param": "param"}, keeps_samples=False)
    along_time = plain().assign_coords(rank=("time", [1, 2]))
    labels.refuse_taken(along_time, "time", names, {"param": "param"}, keeps_samples=False)
    with pytest.raises(LabelError, match="rank"):
        labels.refuse_taken(along_time, "time", names, {"param": "param"}, keeps_samples=True)
    with pytest.raises(LabelError, match=r"a dim called 'y'.*param_dim='coefficient'"):
        labels.refuse_taken(plain(), "time", names, {"param": "y"}, keeps_samples=False)
    with pytest.raises(LabelError, match=r"called \['x'\]"):
        labels.refuse_taken(plain(), "time", ("x",), {"param": "param"}, keeps_samples=False)
