"""Weights against closed forms, quadrature of the textbook density, and simulated speckle."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import mpmath
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import spence

from xr_lstsq.errors import DtypeError
from xr_lstsq.weights import from_coherence, from_sigma

LOOKS = [0.3, 1, 1.7, 7.25, 20, 80.1, 1000]


def exact_weight(coherence: float, looks: float) -> float:
    """Return the inverse variance by quadrature of the hypergeometric density, 25 digits."""
    with mpmath.workdps(25):
        g, n = mpmath.mpf(coherence), mpmath.mpf(looks)
        factor = mpmath.sqrt(mpmath.pi) * mpmath.gamma(n + 0.5) / mpmath.gamma(n)

        def density(phi: Any) -> Any:
            b = g * mpmath.cos(phi)
            bell = factor * b / (1 - b * b) ** (n + 0.5)
            if b < 0:  # the same function, without its cancellation
                half = mpmath.hyp2f1(2 * n, 2, n + 1.5, (1 + b) / 2) / (2 * n + 1)
                return (1 - g * g) ** n / (2 * mpmath.pi) * half
            base = mpmath.hyp2f1(n, 1, 0.5, b * b)
            return (1 - g * g) ** n / (2 * mpmath.pi) * (bell + base)

        width = min(1.0, float(mpmath.sqrt((1 - g * g) / (2 * n)) / g))
        edges = [0, *(width * k for k in (1, 3, 7, 15)), mpmath.pi]
        edges = sorted({min(edge, mpmath.pi) for edge in edges})
        total = 2 * mpmath.quad(density, edges)
        assert abs(total - 1) < 1e-12  # the density is one
        return float(1 / (2 * mpmath.quad(lambda x: x * x * density(x), edges)))


@pytest.mark.parametrize("looks", LOOKS)
def test_variance_is_that_of_the_multilook_phase_density(looks: float) -> None:
    coherence = np.array([0.037, 0.61, 0.9989])
    expected = [exact_weight(g, looks) for g in coherence]
    np.testing.assert_allclose(from_coherence(coherence, looks), expected, rtol=1e-8)


def test_variance_of_one_look_is_its_closed_form_at_every_coherence() -> None:
    g = np.append(np.linspace(0, 0.999, 4001), 0.5)
    variance = np.pi**2 / 3 - np.pi * np.arcsin(g) + np.arcsin(g) ** 2 - spence(1 - g * g) / 2
    np.testing.assert_allclose(from_coherence(g, 1), 1 / variance, rtol=1e-8)


@pytest.mark.parametrize(("coherence", "looks"), [(0.0, 3), (0.3, 1), (0.6, 4), (0.85, 9)])
def test_variance_is_that_of_simulated_speckle(coherence: float, looks: int) -> None:
    rng = np.random.default_rng(looks)
    count = 200_000
    re = rng.normal(size=(2, 2, looks, count))
    one, noise = re[0] + 1j * re[1]
    two = coherence * one + np.sqrt(1 - coherence**2) * noise
    phase = np.angle((one.conj() * two).sum(axis=0))
    # The relative error of a mean of squares is that of its own spread.
    error = np.std(phase**2) / np.mean(phase**2) / np.sqrt(count)
    found = float(from_coherence(np.array(coherence), looks))
    assert 1 / found == pytest.approx(np.mean(phase**2), rel=5 * error)


@pytest.mark.parametrize("looks", LOOKS)
def test_no_coherence_is_a_uniform_phase_and_has_no_information(looks: float) -> None:
    zero = np.zeros(3)
    np.testing.assert_allclose(from_coherence(zero, looks), 3 / np.pi**2, rtol=1e-8)
    assert (from_coherence(zero, looks, "fisher") == 0).all()


@pytest.mark.parametrize("looks", [1e4, 1e5, 1e6])
def test_variance_of_many_looks_tends_to_the_cramer_rao_bound(looks: float) -> None:
    coherence = np.linspace(0.2, 0.999, 50)
    bound = 2 * looks * coherence**2 / (1 - coherence**2)
    ratio = from_coherence(coherence, looks) / bound
    np.testing.assert_allclose(ratio, 1, rtol=30 / looks)
    np.testing.assert_allclose(from_coherence(coherence, looks, "fisher"), bound, rtol=1e-12)


@settings(max_examples=10)
@given(st.floats(0.2, 1e6), st.integers(0, 2**20))
def test_weights_rise_with_coherence_from_that_of_a_uniform_phase(looks: float, seed: int) -> None:
    coherence = np.sort(np.random.default_rng(seed).random(200))
    weights = from_coherence(coherence, looks)
    assert (np.diff(weights) >= 0).all()
    assert (weights >= 3 / np.pi**2 * (1 - 1e-8)).all()


def test_more_looks_and_another_kind_move_the_weights() -> None:
    g = np.array([0.3, 0.7])
    one, two = from_coherence(g, 5), from_coherence(g, 10)
    assert (two > 1.2 * one).all()
    assert (np.abs(from_coherence(g, 5, "fisher") / one - 1) > 0.05).all()
    np.testing.assert_array_equal(from_coherence(g, kind="coherence"), g)


@pytest.mark.parametrize("kind", ["variance", "fisher", "coherence"])
def test_coherence_counts_as_0999_at_most_and_0_at_least(kind: str) -> None:
    looks = None if kind == "coherence" else 8
    found = from_coherence(np.array([0.999, 0.9995, 1.0, 1 + 5e-7, 1, 0, -5e-7]), looks, kind)
    np.testing.assert_array_equal(found[:5], found[0])
    assert np.isfinite(found).all()
    assert found[5] == found[6]
    missing = from_coherence(np.array([np.nan]), looks, kind)
    np.testing.assert_array_equal(missing, [np.nan if kind == "variance" else 0.0])
    flags = from_coherence(np.array([0, 1], "u1"), looks, kind)
    np.testing.assert_array_equal(flags, found[[5, 0]])


@pytest.mark.parametrize("kind", ["variance", "fisher", "coherence"])
def test_labels_stay_and_lazy_equals_numpy(kind: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((3, 4, 5)).astype("f4")
    values[0, 0, :2] = np.nan, 0
    cube = xr.DataArray(
        values,
        dims=("pair", "y", "x"),
        coords={"y": np.arange(4.0), "spatial_ref": 0},
        name="coh",
        attrs={"units": "1", "long_name": "coherence"},
    )
    cube.encoding["grid_mapping"] = "spatial_ref"
    looks = None if kind == "coherence" else 8
    found = from_coherence(cube, looks, kind)
    assert found.name is None
    assert found.attrs["units"] == ("1" if kind == "coherence" else "rad-2")
    assert set(found.attrs) == {"long_name", "units"}
    assert found.encoding["grid_mapping"] == "spatial_ref"
    assert found.dtype == np.float32
    xr.testing.assert_identical(found.coords.to_dataset(), cube.coords.to_dataset())
    np.testing.assert_array_equal(found.values, from_coherence(values, looks, kind))
    double = from_coherence(values.astype("f8"), looks, kind)
    assert double.dtype == np.float64
    np.testing.assert_allclose(found.values, double, rtol=2e-7)
    with dask.config.set(scheduler=_refuse):
        lazy = from_coherence(cube.chunk(y=2, x=3), looks, kind)
    assert lazy.chunks == ((3,), (2, 2), (3, 2))
    xr.testing.assert_identical(lazy.compute(), found)


def test_lazy_values_that_are_no_coherence_have_the_weight_of_nan() -> None:
    lazy = xr.DataArray(da.from_array(np.array([-0.1, 0.5, 1.1, 200.0, np.inf, 1.0])), dims="x")
    nan = np.isnan(from_coherence(lazy, 5).values)
    assert nan.tolist() == [True, False, True, True, True, False]
    for kind, looks in (("fisher", 5), ("coherence", None)):
        zero = from_coherence(lazy, looks, kind).values == 0
        np.testing.assert_array_equal(zero, nan)


def test_masked_values_are_missing() -> None:
    masked = np.ma.masked_array([0.5, 77.0], mask=[False, True])
    np.testing.assert_array_equal(np.isnan(from_coherence(masked, 4)), [False, True])
    np.testing.assert_array_equal(from_sigma(masked - 1.5 + 2.5), [1 / 1.5**2, np.nan])
    lazy = xr.DataArray(da.from_array(masked), dims="x")
    np.testing.assert_array_equal(np.isnan(from_coherence(lazy, 4).values), [False, True])


@pytest.mark.parametrize(
    ("coherence", "arguments", "error", "words"),
    [
        (np.array([0.2, 1.1, -3.0]), {"looks": 4}, ValueError, "2 values outside .*such as 1.1"),
        (np.array([0, 200], "u1"), {"looks": 4}, ValueError, "1 values outside .*such as 200"),
        (np.array([np.inf]), {"looks": 4}, ValueError, "such as inf"),
        (xr.DataArray([2.0]), {"kind": "coherence"}, ValueError, "coherence / 255"),
        (np.array([0.2 + 1j]), {"looks": 4}, DtypeError, r"Pass abs\(\) of it"),
        (np.array([True]), {"looks": 4}, DtypeError, "astype"),
        ([0.2], {"looks": 4}, TypeError, r"numpy.asarray\(coherence\)"),
        (da.ones(3), {"looks": 4}, TypeError, "Pass a DataArray"),
        (np.array([0.2]), {}, ValueError, "looks=None of kind='variance'"),
        (np.array([0.2]), {"looks": 0, "kind": "fisher"}, ValueError, "looks=0 of kind='fisher'"),
        (np.array([0.2]), {"looks": np.inf}, ValueError, "above 0"),
        (np.array([0.2]), {"looks": np.nan}, ValueError, "above 0"),
        (np.array([0.2]), {"looks": True}, ValueError, "above 0"),
        (np.array([0.2]), {"looks": "4"}, ValueError, "above 0"),
        (np.array([0.2]), {"looks": 4, "kind": "coherence"}, ValueError, "has no use"),
        (np.array([0.2]), {"looks": 4, "kind": "var"}, ValueError, "variance, fisher, coherence"),
    ],
)
def test_what_is_no_coherence_is_refused(
    coherence: Any, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        from_coherence(coherence, **arguments)


# --- standard deviations --------------------------------------------------------------------


def test_weights_of_standard_deviations_are_inverse_variances() -> None:
    values = np.array([[0.5, 2.0], [np.nan, np.inf]])
    expected = [[4.0, 0.25], [np.nan, 0.0]]
    np.testing.assert_array_equal(from_sigma(values), expected)
    cube = xr.DataArray(values, dims=("y", "x"), coords={"x": [3, 4]}, name="sd")
    assert from_sigma(cube).attrs == {"long_name": "inverse variance"}
    for units, squared in {"mm": "mm-2", "m/s": "m-2 s2", "degC": "K-2", "1": "1"}.items():
        found = from_sigma(cube.assign_attrs(units=units))
        assert found.attrs["units"] == squared
    assert found.name is None
    np.testing.assert_array_equal(found.values, expected)
    xr.testing.assert_identical(found.x, cube.x)
    lazy = from_sigma(cube.assign_attrs(units="1").chunk(y=1))
    assert lazy.chunks == ((1, 1), (2,))
    xr.testing.assert_identical(lazy.compute(), found)


def test_dtype_of_weights_is_float32_only_of_float32() -> None:
    dtypes = {"f4": "f4", ">f4": "f4", "f8": "f8", "i2": "f8", "f2": "f8"}
    for given_dtype, dtype in dtypes.items():
        found = from_sigma(np.array([4], given_dtype))
        assert found.dtype == np.dtype(dtype)
        assert found == 1 / 16
    # Beyond the dtype a weight is infinite, which is a missing sample, and no warning.
    assert from_sigma(np.array([1e-30], "f4")) == np.inf
    assert from_sigma(np.array([1e-200])) == np.inf


def test_no_standard_deviation_is_refused_or_nan_where_it_is_lazy() -> None:
    values = np.array([1.0, 0.0, -2.0])
    with pytest.raises(ValueError, match="sigma has 2 values of 0 or below, the smallest -2"):
        from_sigma(values)
    with pytest.raises(ValueError, match=r"\.where\(sigma > 0\)"):
        from_sigma(xr.DataArray(values))
    with pytest.raises(DtypeError, match="complex128"):
        from_sigma(values * 1j)
    with pytest.raises(TypeError, match="sigma is a float"):
        from_sigma(2.0)  # type: ignore[type-var]
    lazy = xr.DataArray(da.from_array(values), dims="x")
    np.testing.assert_array_equal(from_sigma(lazy).values, [1.0, np.nan, np.nan])


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("computed while the graph was built")
