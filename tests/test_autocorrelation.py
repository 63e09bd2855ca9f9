"""Noise that remembers: HAC and AR(1) errors, and fits by the noise's own covariance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import statsmodels.api as sm
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from tests.test_statistics import OF_MODEL, OF_PARAMS, assert_near, pixel, statistics_of
from xr_lstsq.errors import LabelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

N, B = 90, 16
FEWEST = 10  # pairs of samples, for an autocorrelation


def daily(steps: Any) -> NDArray[np.datetime64]:
    return np.datetime64("2015-01-01", "ns") + np.asarray(steps) * np.timedelta64(1, "D")


REGULAR = np.arange(N)
IRREGULAR = np.cumsum(0.4 + np.random.default_rng(3).exponential(2.0, N))
MEDIAN = float(np.median(np.diff(IRREGULAR)))


def rows_at(steps: Floats) -> Floats:
    t = np.asarray(steps) / 30.0
    return np.c_[np.ones(t.size), t, np.cos(t)]


def remembering(steps: Floats, b: int = B, rho: float = 0.6, seed: int = 0) -> Floats:
    """Return (n, b) noise with the correlation rho^steps."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(len(steps), b))
    for i, phi in enumerate(rho ** np.diff(steps), start=1):
        noise[i] = phi * noise[i - 1] + np.sqrt(1.0 - phi**2) * noise[i]
    return noise


def samples(steps: Floats, share: float = 0.6, seed: int = 0) -> Floats:
    """Return (n, b) samples with such noise, and gaps."""
    rng = np.random.default_rng(seed + 100)
    rows = rows_at(steps)
    y = rows @ rng.normal(size=(rows.shape[1], B)) + remembering(steps, seed=seed)
    y[rng.random(y.shape) < np.linspace(0.0, share, B)] = np.nan
    return y


def weights(kind: str) -> Floats | None:
    rng = np.random.default_rng(1)
    if kind == "none":
        return None
    shape = (N, 1) if kind == "shared" else (N, B)
    return np.broadcast_to(np.exp(0.5 * rng.normal(size=shape)), (N, B))


def solve(y: Floats, steps: Any = REGULAR, w: Floats | None = None, **more: Any) -> xr.Dataset:
    cube = xr.DataArray(y, {"time": daily(0) + as_time(steps)}, ("time", "x"), name="h")
    given = None
    if w is not None:
        one = (w == w[:, :1]).all()
        given = xr.DataArray(w[:, 0], dims="time") if one else w
    arguments = {"device": "cpu", "weights": given, **more}
    return cube.lstsq.solve(arguments.pop("design", rows_at(steps)), "time", **arguments)


def as_time(steps: Any) -> NDArray[np.timedelta64]:
    """Return steps of a day."""
    nanoseconds = np.rint(np.asarray(steps) * 86_400e9).astype(np.int64)
    return nanoseconds * np.timedelta64(1, "ns")


def weighted(y: Floats, rows: Floats, w: Floats | None) -> tuple[NDArray[np.bool_], Floats, Any]:
    """Return which samples of a pixel count, their residuals times root weights, and its model."""
    keep = np.isfinite(y)
    each = np.ones(keep.sum()) if w is None else w[keep]
    model = sm.WLS(y[keep], rows[keep], weights=each).fit()
    return keep, model.resid * np.sqrt(each), model


# --------------------------------------------------------------------------------------------
# HAC


@pytest.mark.parametrize("maxlags", [0, 1, 4, 20])
@pytest.mark.parametrize("kind", ["none", "shared", "per pixel"])
def test_hac_errors_of_complete_series_are_those_of_statsmodels(kind: str, maxlags: int) -> None:
    y, w = samples(REGULAR, share=0.0), weights(kind)
    rows = rows_at(REGULAR)
    fit = solve(y, w=w, stats=OF_PARAMS, cov_type="HAC", maxlags=maxlags)
    for k in range(B):
        model = weighted(y[:, k], rows, None if w is None else w[:, k])[2]
        want = statistics_of(model, {"cov_type": "HAC", "maxlags": maxlags, "use_t": True})
        assert_near(pixel(fit, k), {name: want[name] for name in OF_PARAMS})


def hac(y: Floats, rows: Floats, w: Floats | None, time: Floats, maxlags: int) -> Floats:
    """Return (A'WA)+ M (A'WA)+ with M = sum_ij (1 - lag_ij / (maxlags + 1)) u_i u_j'."""
    keep, residual, _ = weighted(y, rows, w)
    root = np.ones(keep.sum()) if w is None else np.sqrt(w[keep])
    each = rows[keep] * root[:, None]
    inverse = np.linalg.inv(each.T @ each)
    middle = np.zeros_like(inverse)
    for s, u in zip(time[keep], each * residual[:, None], strict=True):
        for t, v in zip(time[keep], each * residual[:, None], strict=True):
            middle += max(0.0, 1.0 - abs(s - t) / (maxlags + 1)) * np.outer(u, v)
    return inverse @ middle @ inverse


@pytest.mark.parametrize("kind", ["none", "per pixel"])
@pytest.mark.parametrize("steps", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
def test_lags_are_counted_in_time_across_gaps(steps: Floats, kind: str) -> None:
    y, w = samples(steps), weights(kind)
    time = steps if steps is REGULAR else steps / MEDIAN
    rows = rows_at(steps)
    own = xr.DataArray(rows, dims=("time", "param")).expand_dims(x=B)
    fits = [solve(y, steps, w, stats=("cov", "stderr"), cov_type="HAC", maxlags=4, design=design)
            for design in (rows, own)]  # fmt: skip
    for k in range(0, B, 3):
        want = hac(y[:, k], rows, None if w is None else w[:, k], time, 4)
        spread = np.sqrt(np.diag(want))
        for fit in fits:
            off = np.abs(fit["cov"].values[..., k] - want)
            assert (off <= 1e-10 * np.outer(spread, spread)).all()
            np.testing.assert_allclose(fit["stderr"].values[:, k], spread, rtol=1e-10)


def test_the_number_of_lags_follows_the_length_of_the_axis_and_not_the_gaps() -> None:
    y = samples(REGULAR)
    plain = solve(y, stats="stderr", cov_type="HAC")
    assert int(4 * (N / 100) ** (2 / 9)) == 3
    xr.testing.assert_equal(
        plain["stderr"], solve(y, stats="stderr", cov_type="HAC", maxlags=3)["stderr"]
    )
    other = solve(y, stats="stderr", cov_type="HAC", maxlags=4)
    assert (abs(other["stderr"] / plain["stderr"] - 1) > 1e-4).any()


def test_the_order_of_the_samples_does_not_matter() -> None:
    y = samples(IRREGULAR)
    order = np.random.default_rng(0).permutation(N)
    for options in ({"cov_type": "HAC"}, {"cov_type": "ar1"}, {"noise": "ar1"}):
        fit = solve(y, IRREGULAR, stats=("stderr", "rss"), **options)
        cube = xr.DataArray(y[order], {"time": daily(0) + as_time(IRREGULAR[order])}, ("time", "x"))
        other = cube.lstsq.solve(
            rows_at(IRREGULAR)[order], "time", stats=("stderr", "rss"), **options
        )
        for name in set(fit.data_vars) - {"design_matrix"}:
            np.testing.assert_allclose(other[name], fit[name], rtol=1e-9, err_msg=str(name))


# --------------------------------------------------------------------------------------------
# rho


def rho_of(residual: Floats, keep: NDArray[np.bool_]) -> tuple[float, int]:
    """Return the correlation of residuals over truly adjacent samples, and their pairs."""
    value = np.zeros(keep.size)
    value[keep] = residual
    both = keep[1:] & keep[:-1]
    left, right = value[:-1][both], value[1:][both]
    found = float((left @ right) / np.sqrt((left @ left) * (right @ right)))
    return max(found, 0.0), int(both.sum())


@pytest.mark.parametrize("kind", ["none", "shared", "per pixel"])
def test_rho_of_regular_time_is_that_of_samples_truly_one_step_apart(kind: str) -> None:
    y, w = samples(REGULAR), weights(kind)
    fit = solve(y, w=w, cov_type="ar1", stats="dof")
    for k in range(B):
        keep, residual, _ = weighted(y[:, k], rows_at(REGULAR), None if w is None else w[:, k])
        want, pairs = rho_of(residual, keep)
        assert pairs >= FEWEST
        assert float(fit["rho"][k]) == pytest.approx(want, rel=1e-10, abs=1e-14)
        n_eff = keep.sum() * (1 - want) / (1 + want)
        assert float(fit["n_eff"][k]) == pytest.approx(n_eff, rel=1e-10)
    assert ((fit["rho"] > 0.2) & (fit["rho"] < 0.9)).all()


def test_calendar_months_are_regular_and_a_missing_one_is_no_pair() -> None:
    months = np.arange("2010-01", "2018-01", dtype="M8[M]").astype("M8[ns]")
    gone = np.r_[20, 40:44]
    noise = remembering(np.arange(96), b=3)
    cube = xr.DataArray(noise, {"time": months}, ("time", "x"))
    there = np.delete(np.arange(96), gone)
    fits = [
        cube.where(~xr.DataArray(np.isin(np.arange(96), gone), dims="time")),  # gaps
        cube.isel(time=there),  # or dates that are not there
    ]
    found = [each.lstsq.solve("polynomial(1)", stats="stderr", cov_type="ar1") for each in fits]
    np.testing.assert_allclose(found[0]["rho"], found[1]["rho"], rtol=1e-11)
    keep = np.isin(np.arange(96), there)
    t = xr.DataArray(months, dims="time").astype("int64").values / 1e18
    residual = weighted(
        np.where(keep, noise[:, 0], np.nan), np.c_[np.ones(96), t - t.mean()], None
    )[1]
    assert float(found[0]["rho"][0]) == pytest.approx(rho_of(residual, keep)[0], rel=1e-9)


def squares(rho: Any, left: Floats, right: Floats, steps: Floats) -> Any:
    """Return sum (f_j - rho^d f_i)^2 for each rho."""
    power = np.asarray(rho)[..., None] ** steps
    return ((right - power * left) ** 2).sum(-1)


@given(
    seed=st.integers(0, 2**20),
    rho=st.sampled_from([0.0, 0.2, 0.6, 0.95]),
    tail=st.sampled_from(["normal", "heavy"]),
)
@settings(max_examples=30)
def test_rho_of_irregular_time_is_the_lowest_sum_of_squares(
    seed: int, rho: float, tail: str
) -> None:
    rng = np.random.default_rng(seed)
    steps = np.cumsum(0.4 + rng.exponential(2.0, 40))
    y = remembering(steps, 5, rho, seed)
    if tail == "heavy":  # where the sum has several valleys
        y *= 1 + (rng.random(y.shape) < 0.1) * 8
    y[rng.random(y.shape) < 0.2] = np.nan
    rows = rows_at(steps)
    fit = solve(y, steps, cov_type="ar1", stats="residual")
    unit = np.median(np.diff(steps))
    # Rates of decay from a thousandth to a thousand a step; one without end cannot be whitened
    rates = np.logspace(-3.2, 3.2, 2000)
    for k in range(5):
        keep, residual, _ = weighted(y[:, k], rows, None)
        parts = residual[:-1], residual[1:], np.diff(steps[keep]) / unit
        got = float(fit["rho"][k])
        assert 0.0 <= got < 1.0
        # of two valleys that are as deep to a thousandth either will do
        assert squares(got, *parts) <= squares(np.exp(-rates), *parts).min() * (1 + 1e-3)
        if 1e-3 < got < 0.999:  # where the derivative is 0
            best = optimize.minimize_scalar(
                squares,
                bounds=(got - 1e-3, got + 1e-3),
                args=parts,
                method="bounded",
                options={"xatol": 1e-10},
            )
            assert got == pytest.approx(best.x, abs=1e-5)


def test_rho_of_irregular_time_uses_samples_that_count_one_after_another() -> None:
    y, w = samples(IRREGULAR), weights("per pixel")
    assert w is not None
    fit = solve(y, IRREGULAR, w, cov_type="ar1", stats="dof")
    for k in range(B):
        keep, residual, _ = weighted(y[:, k], rows_at(IRREGULAR), w[:, k])
        parts = residual[:-1], residual[1:], np.diff(IRREGULAR[keep]) / MEDIAN
        best = optimize.minimize_scalar(
            squares, bounds=(0.0, 1.0), args=parts, method="bounded", options={"xatol": 1e-10}
        )
        assert float(fit["rho"][k]) == pytest.approx(best.x, abs=1e-6)


def test_noise_that_swings_has_no_memory_and_counts_in_full() -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(N) % 2, 1.0, -1.0)[:, None] + 0.3 * rng.normal(size=(N, B))
    fit = solve(y, cov_type="ar1", stats="stderr")
    assert (fit["rho"] == 0).all()
    assert (fit["n_eff"] == N).all()
    plain = solve(y, stats="stderr")
    np.testing.assert_allclose(fit["stderr"], plain["stderr"], rtol=1e-12)
    np.testing.assert_allclose(solve(y, noise="ar1")["coef"], plain["coef"], rtol=1e-9)


@pytest.mark.parametrize("steps", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
def test_under_ten_pairs_the_memory_is_not_known(steps: Floats) -> None:
    y = samples(steps)
    y[:, 0] = np.nan
    some = np.arange(FEWEST) if steps is not REGULAR else np.r_[:5, 10:15, 20:23, 40:60:2]
    y[some, 0] = samples(steps, share=0.0)[some, 0]  # nine samples that follow, or nine pairs
    if steps is REGULAR:
        y[22, 0] = np.nan
    fit = solve(y, steps, cov_type="ar1", stats=("dof", "stderr", "resid_std", "rss"))
    assert np.isnan([fit["rho"][0], fit["n_eff"][0], fit["dof"][0], fit["resid_std"][0]]).all()
    assert np.isnan(fit["stderr"][:, 0]).all()
    assert np.isfinite(fit["coef"][:, 0]).all()
    assert int(fit["status"][0]) == 0
    assert np.isfinite(fit["stderr"][:, 1:]).all()
    other = solve(y, steps, noise="ar1", stats=("dof", "stderr", "rss", "residual", "fitted"))
    assert int(other["status"][0]) == 2
    for name in ("coef", "stderr", "rss", "residual", "fitted", "rho", "n_eff"):
        assert np.isnan(other[name].isel(x=0)).all(), name
    assert int(other["nobs"][0]) == some.size - (steps is REGULAR)
    assert int(other["rank"][0]) == 3
    assert (other["status"][1:] == 0).all()
    y[some[-1] + 1 if steps is not REGULAR else 22, 0] = 0.5  # one pair more
    assert np.isfinite(solve(y, steps, cov_type="ar1", stats="stderr")["rho"]).all()
    assert (solve(y, steps, noise="ar1")["status"] == 0).all()


# --------------------------------------------------------------------------------------------
# cov_type="ar1"


@pytest.mark.parametrize("kind", ["none", "per pixel"])
@pytest.mark.parametrize("steps", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
def test_errors_of_an_effective_sample_follow_from_its_size(steps: Floats, kind: str) -> None:
    y, w = samples(steps), weights(kind)
    asked = ("dof", "resid_std", "rss", "rsquared_adj", *OF_PARAMS)
    fit = solve(y, steps, w, cov_type="ar1", stats=asked, level=0.9)
    plain = solve(y, steps, w, stats=asked)
    assert fit["dof"].dtype == np.float64
    assert fit["dof"].attrs["long_name"] != plain["dof"].attrs["long_name"]
    for name in ("coef", "rss", "rsquared_adj", "nobs", "rank", "status"):
        np.testing.assert_array_equal(fit[name], plain[name], err_msg=name)
    for k in range(B):
        each = None if w is None else w[:, k]
        keep, _, model = weighted(y[:, k], rows_at(steps), each)
        rho = float(fit["rho"][k])
        dof = keep.sum() * (1 - rho) / (1 + rho) - 3
        if dof <= 0:
            for name in ("stderr", "tvalue", "pvalue", "conf_int", "cov", "resid_std"):
                assert np.isnan(fit[name].isel(x=k)).all()
            continue
        cov = model.ssr / dof * model.normalized_cov_params
        spread = np.sqrt(np.diag(cov))
        t = model.params / spread
        half = stats.t.isf(0.05, dof) * spread
        want = {
            "dof": dof,
            "resid_std": np.sqrt(model.ssr / dof),
            "cov": cov,
            "stderr": spread,
            "tvalue": t,
            "pvalue": 2 * stats.t.sf(np.abs(t), dof),
            "conf_int": np.c_[model.params - half, model.params + half],
        }
        assert_near(pixel(fit, k), want)
    assert (fit["dof"] > 0).sum() > B / 2


# --------------------------------------------------------------------------------------------
# noise="ar1"


def by_gls(y: Floats, rows: Floats, w: Floats | None, rho: float, time: Floats) -> Any:
    """Return the fit of statsmodels by the noise's covariance W^-1/2 R W^-1/2."""
    keep = np.isfinite(y)
    root = np.ones(keep.sum()) if w is None else np.sqrt(w[keep])
    lag = np.abs(np.subtract.outer(time[keep], time[keep]))
    return sm.GLS(y[keep], rows[keep], sigma=rho**lag / np.outer(root, root)).fit()


@pytest.mark.parametrize("kind", ["none", "shared", "per pixel"])
@pytest.mark.parametrize("steps", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
def test_a_fit_with_modelled_noise_is_that_by_its_covariance(steps: Floats, kind: str) -> None:
    y, w = samples(steps), weights(kind)
    rows, time = rows_at(steps), steps if steps is REGULAR else steps / MEDIAN
    first = solve(y, steps, w, cov_type="ar1", stats="dof")
    fit = solve(y, steps, w, noise="ar1", stats=(*OF_MODEL, "residual", "fitted", "leverage"))
    np.testing.assert_array_equal(fit["rho"], first["rho"])
    np.testing.assert_array_equal(fit["n_eff"], first["n_eff"])
    assert fit["dof"].dtype == np.int32
    for k in range(B):
        each = None if w is None else w[:, k]
        model = by_gls(y[:, k], rows, each, float(fit["rho"][k]), time)
        got = pixel(fit, k)
        np.testing.assert_allclose(got["coef"], model.params, rtol=1e-9)
        assert_near(got, statistics_of(model))
        keep = np.isfinite(y[:, k])
        np.testing.assert_allclose(got["residual"][keep], model.resid, rtol=1e-9, atol=1e-11)
        assert np.isnan(got["residual"][~keep]).all()
        np.testing.assert_allclose(got["fitted"], rows @ model.params, rtol=1e-9, atol=1e-11)
        assert np.isnan(got["leverage"][~keep]).all()
        assert np.nansum(got["leverage"]) == pytest.approx(3.0, rel=1e-10)
    assert (abs(fit["coef"] - first["coef"]) > 1e-3).any()


def test_modelled_noise_with_a_design_for_each_pixel_or_without_a_constant() -> None:
    rng = np.random.default_rng(0)
    y = samples(REGULAR)
    own = rows_at(REGULAR)[:, :, None] * (1 + 0.1 * rng.normal(size=(N, 3, B)))
    own[:, 0, ::2] = 1.0  # a constant of every other pixel
    fit = solve(
        y, design=xr.DataArray(own, dims=("time", "param", "x")), noise="ar1", stats=OF_MODEL
    )
    for k in range(B):
        model = by_gls(y[:, k], own[..., k], None, float(fit["rho"][k]), REGULAR)
        assert_near(pixel(fit, k), statistics_of(model))


def test_modelled_noise_with_known_variances_has_errors_of_the_normal_distribution() -> None:
    y, w = samples(REGULAR), weights("per pixel")
    assert w is not None
    fit = solve(y, w=w, noise="ar1", absolute_sigma=True, stats=OF_PARAMS)
    for k in range(B):
        model = by_gls(y[:, k], rows_at(REGULAR), w[:, k], float(fit["rho"][k]), REGULAR)
        spread = np.sqrt(np.diag(model.normalized_cov_params))
        want = {
            "cov": model.normalized_cov_params,
            "stderr": spread,
            "pvalue": 2 * stats.norm.sf(np.abs(model.params / spread)),
            "conf_int": model.params[:, None] + stats.norm.isf(0.025) * np.outer(spread, [-1, 1]),
        }
        assert_near(pixel(fit, k), want)


def test_what_leaves_no_residual_is_fitted_all_the_same() -> None:
    rows = rows_at(REGULAR)
    y = samples(REGULAR)
    y[:, 0] = 0.0
    y[:, 1] = 8.0
    y[:, 2] = rows @ [1.0, 2.0, 0.0]
    for options in ({"noise": "ar1"}, {"cov_type": "ar1"}):
        fit = solve(y, stats=("stderr", "rsquared", "pvalue"), **options)
        assert (fit["status"] == 0).all()
        np.testing.assert_allclose(fit["coef"][:, 0], 0.0, atol=1e-12)
        np.testing.assert_allclose(fit["coef"][:, 1], [8.0, 0.0, 0.0], atol=1e-12)
        np.testing.assert_allclose(fit["coef"][:, 2], [1.0, 2.0, 0.0], atol=1e-12)
        assert np.isnan(fit["rsquared"][:2]).all()
        assert np.isfinite(fit["stderr"][:, 3:]).all()


def test_memory_without_end_leaves_nothing_of_a_pixel_and_its_neighbours_alone() -> None:
    # Without a constant in the design all residuals are alike
    rows = rows_at(REGULAR)[:, 1:] - rows_at(REGULAR)[:, 1:].mean(0)
    y = rows @ np.ones((2, B)) + remembering(REGULAR)
    y[:, 0] = 5.0
    fit = solve(y, design=rows, cov_type="ar1", stats=("stderr", "dof"))
    assert float(fit["rho"][0]) == pytest.approx(1.0)
    assert np.isnan(fit["stderr"][:, 0]).all()
    other = solve(y, design=rows, noise="ar1", stats=("stderr", "rss"))
    alone = solve(y[:, 1:], design=rows, noise="ar1", stats=("stderr", "rss"))
    for name in ("coef", "stderr", "rss", "status"):
        np.testing.assert_allclose(other[name][..., 1:], alone[name], rtol=1e-12)
    given = np.isfinite(other["coef"][:, 0]).all()
    assert given == (int(other["status"][0]) == 0)


# --------------------------------------------------------------------------------------------
# Axes that are no time


AXES: dict[str, tuple[Any, str]] = {
    "whole numbers": (np.arange(N), "numbers that do not say that they are time"),
    "names": ([f"s{k}" for k in range(N)], "labels of type str"),
    "pairs": ([f"20150101_2015{k:04}" for k in range(N)], "labels of type str"),
    "a date twice": (daily(np.r_[0, np.arange(N - 1)]), "more than one"),
    "a date that is missing": (np.r_[daily(np.arange(N - 1)), np.datetime64("NaT")], "missing"),
    "no coordinate": (None, "no coordinate"),
}


@pytest.mark.parametrize("option", ["cov_type='HAC'", "cov_type='ar1'", "noise='ar1'"])
@pytest.mark.parametrize("axis", AXES)
def test_samples_that_lie_along_no_axis_of_time_are_refused_before_any_work(
    axis: str, option: str
) -> None:
    labels, message = AXES[axis]
    cube = xr.DataArray(samples(REGULAR), dims=("pair", "x"), name="h")
    if labels is not None:
        cube = cube.assign_coords(pair=labels)
    name, value = option.split("=")
    for each in (cube, cube.chunk(), cube.to_dataset()):
        with pytest.raises(LabelError, match=f"{option} needs.*{message}"):
            each.lstsq.solve(rows_at(REGULAR), "pair", **{name: value.strip("'")})


@pytest.mark.parametrize("labels", ["years", "time", "cftime"])
def test_numbers_that_are_time_and_dates_of_any_calendar_will_do(labels: str) -> None:
    y = samples(REGULAR)
    dates: Any = 2000.0 + REGULAR / 12.0
    if labels == "cftime":
        dates = xr.date_range(
            "2000-01-01", periods=N, freq="MS", calendar="noleap", use_cftime=True
        )
    dim = "time" if labels == "time" else "t_"
    cube = xr.DataArray(y, {dim: dates}, (dim, "x"))
    if labels == "years":
        cube[dim].attrs["units"] = "years"
    for options in ({"cov_type": "HAC"}, {"cov_type": "ar1"}, {"noise": "ar1"}):
        fit = cube.lstsq.solve(rows_at(REGULAR), dim, stats="stderr", **options)
        np.testing.assert_allclose(
            fit["stderr"], solve(y, stats="stderr", **options)["stderr"], rtol=1e-9
        )
