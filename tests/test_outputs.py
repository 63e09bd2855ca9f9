"""Rows of the table of outputs, and the rule of units."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from xr_lstsq.outputs import (
    ALWAYS,
    AXES,
    DEFAULT,
    OUTPUTS,
    STATS,
    multiply_units,
    own_axes,
    select,
    variable_attrs,
)
from xr_lstsq.solvers.wanted import FACTS
from xr_lstsq.statistics import STATISTICS


@pytest.mark.parametrize(
    ("units", "factor", "power", "difference", "want"),
    [
        ("mm", "year-1", 1, True, "mm year-1"),
        ("mm", "", 1, True, "mm"),
        ("mm/yr", "year-1", 1, True, "mm year-2"),
        ("mm/year", "", 1, True, "mm year-1"),
        ("mm yr^-1", "year-1", 1, True, "mm year-2"),
        ("m s-1", "year-1", 1, True, "m s-1 year-1"),
        ("m**2/s", "", 1, True, "m2 s-1"),
        ("degC", "year-1", 1, True, "K year-1"),
        ("degC", "", 1, False, "degC"),
        ("degrees_Celsius", "", 1, True, "K"),
        ("1", "year-1", 1, True, "year-1"),
        ("1", "", 2, True, "1"),
        ("", "", 2, True, "1"),
        ("year", "year-1", 1, True, "1"),
        ("K", "", 2, True, "K2"),
        ("mm/yr", "", 2, True, "mm2 year-2"),
        ("log10(m)", "year-1", 1, True, "(log10(m)) year-1"),
        ("log10(m)", "", 2, True, "(log10(m))2"),
        ("m", "(m s-1)-1", 1, True, "m (m s-1)-1"),
    ],
)
def test_units_are_multiplied(
    units: str, factor: str, power: int, difference: bool, want: str
) -> None:
    assert multiply_units(units, factor, power, difference=difference) == want


def test_what_is_asked_comes_after_what_is_always_there_in_the_order_of_the_table() -> None:
    def names(stats: str | Iterable[str]) -> tuple[str, ...]:
        return tuple(row.name for row in select(stats))

    assert names(()) == ("coef", "nobs", "rank", "status")
    assert names("rss") == ("coef", "nobs", "rank", "status", "rss")
    assert names(["rmse", "dof", "rmse"])[4:] == ("dof", "rmse")
    assert names("default")[4:] == ("dof", "resid_std", "rsquared", "stderr")
    assert names(["default", "rss"])[4:] == ("dof", "rss", "resid_std", "rsquared", "stderr")


def test_an_unknown_statistic_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"\['r2'\].*Choose from " + ", ".join(STATS)):
        select(["rss", "r2"])
    with pytest.raises(ValueError, match="rank: always there"):
        select("rank")


def test_what_is_estimated_of_the_noise_is_there_without_being_asked_for() -> None:
    rows = select("dof", autocorrelated=True, real_dof=True)
    assert [row.name for row in rows] == [*ALWAYS, "dof", "rho", "n_eff"]
    kinds = {row.name: (row.kind, row.long_name) for row in rows}
    assert kinds["dof"] == ("float", "degrees of freedom, n_eff - rank")
    assert select("dof")[-1].kind == "int32"
    assert select(("rho", "n_eff"), autocorrelated=True) == select((), autocorrelated=True)
    with pytest.raises(ValueError, match=r"rho: comes with cov_type='ar1' or noise='ar1'"):
        select("rho")


def test_every_statistic_has_a_row_and_a_function() -> None:
    assert set(OUTPUTS) == {*ALWAYS, *STATISTICS}
    assert set(STATISTICS) == {*STATS, "rho", "n_eff"}
    assert set(DEFAULT) <= set(STATS)
    assert {row.shape for row in OUTPUTS.values()} == set(AXES)
    for row in STATISTICS.values():
        assert set(row.needs) <= set(FACTS)


def test_dims_of_a_fit_follow_from_what_it_holds() -> None:
    assert own_axes(select("rss"), "param") == {"param": "param"}
    assert own_axes(select(("cov", "conf_int")), "term") == {
        "param": "term",
        "param_2": "term_2",
        "bound": "bound",
    }


def test_attributes_follow_from_the_row() -> None:
    status = variable_attrs(OUTPUTS["status"], "ndvi", "K")
    assert status["flag_values"].tolist() == [0, 1, 2, 3, 4, 5]
    assert status["flag_meanings"].split()[3] == "rank_deficient"
    assert "minimum-norm" in status["long_name"]
    assert variable_attrs(OUTPUTS["rss"], "lst", "degC")["units"] == "K2"
    assert variable_attrs(OUTPUTS["rmse"], "lst", "degC")["units"] == "K"
    assert variable_attrs(OUTPUTS["nobs"], "lst", "degC")["units"] == "1"
    assert variable_attrs(OUTPUTS["nobs"], "lst", "K")["standard_name"] == "number_of_observations"
    assert variable_attrs(OUTPUTS["stderr"], "lst", "K")["standard_name"] == "standard_error"
    for name in ("stderr", "conf_int", "cov"):  # those of each param differ
        assert "units" not in variable_attrs(OUTPUTS[name], "lst", "K")
    assert "units" not in variable_attrs(OUTPUTS["rss"], "lst", None)
    assert "units" not in variable_attrs(OUTPUTS["coef"], "lst", "K")
    assert variable_attrs(OUTPUTS["coef"], "lst", "K")["long_name"] == "coefficients of lst"
