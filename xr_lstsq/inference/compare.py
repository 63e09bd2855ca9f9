"""Tests of nested models against each other, pixel by pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq import labels
from xr_lstsq.errors import LabelError
from xr_lstsq.inference.coordinates import spread
from xr_lstsq.inference.distributions import f_tail
from xr_lstsq.inference.reading import Model, read

__all__ = ["compare"]

RESULTS = ("fvalue", "pvalue", "aic_difference")
STATS = ("rss", "rank", "nobs")
"""What the tests are made of, of each fit."""
ALIKE = ("weights", "valid", "cov_type", "noise")
"""Arguments in which two fits must agree to be compared."""
PART = 1e-6
"""Share of a column that may be left over where it counts as part of a larger design."""


def compare(fit: xr.Dataset, other: Any) -> xr.Dataset:
    """Return tests of a fit against another of the same cube: see `.lstsq.compare`.

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> time = np.arange("2001-01-01", "2001-01-07", dtype="datetime64[D]")
    >>> cube = xr.DataArray([1.0, 2, 4, 4, 5, 7], {"time": time}, "time")
    >>> line = cube.lstsq.solve("polynomial(1, unit=day)", stats="rss")
    >>> mean = cube.lstsq.solve("polynomial(0)", stats="rss")
    >>> compare(line, mean).fvalue.round(2).item()
    78.67
    """
    if not isinstance(other, xr.Dataset):
        msg = (
            f"other is a {type(other).__name__}, and a fit is compared with a fit. "
            "Pass what .lstsq.solve returned."
        )
        raise ValueError(msg)  # noqa: TRY004 - the same error as for a Dataset that is no fit
    mine, theirs = ({m.prefix: m for m in read(one)} for one in (fit, other))
    if set(mine) != set(theirs):
        found = [sorted(prefix + "coef" for prefix in one) for one in (mine, theirs)]
        msg = (
            f"the fits hold {found[0]} and {found[1]}, which are not the same variables. "
            "Fit the same ones, or select those that both have."
        )
        raise ValueError(msg)
    parts: dict[str, xr.DataArray] = {}
    for prefix, model in mine.items():
        parts |= _compare(model, theirs[prefix])
    return xr.Dataset(parts, attrs=fit.attrs)


def _compare(model: Model, other: Model) -> dict[str, xr.DataArray]:
    """Return the tests of one variable."""
    _refuse_unlike(model, other)
    model.refuse_taken(model.prefix + name for name in RESULTS)
    own = model.need(STATS, "compare")
    pixels = [name for name in model.coef.dims if name in model.pixel_dims]
    matched = [labels.match(array, own[0], "other") for array in other.need(STATS, "compare")]
    against = [array.drop_vars(list(array.coords)).transpose(*pixels) for array in matched]
    arrays = xr.apply_ufunc(
        _statistics,
        *own,
        *against,
        output_core_dims=[[]] * len(RESULTS),
        keep_attrs=False,
        dask="parallelized",
        output_dtypes=[np.float64] * len(RESULTS),
    )
    small, large = sorted((model, other), key=lambda one: len(one.names))
    added = [str(name) for name in large.names if name not in small.names]
    what = f"the fit of {model.title} with {', '.join(added)} against the fit without"
    if not added:
        what = f"the fit of {model.title} of higher rank against the other"
    texts = (
        f"F of {what}",
        f"p-value of F of {what}",
        f"AIC of this fit of {model.title} minus that of the other",
    )
    return {
        model.prefix + name: model.finish(array, {"long_name": text, "units": "1"})
        for name, array, text in zip(RESULTS, arrays, texts, strict=True)
    }


def _refuse_unlike(model: Model, other: Model) -> None:
    """Refuse fits of other samples, and models that are not nested."""
    small, large = sorted((model, other), key=lambda one: len(one.names))
    if not set(small.names) <= set(large.names):
        msg = (
            f"the fits of {model.title} have the params {model.names} and {other.names}, and "
            "neither is a part of the other: an F test needs nested models. "
            "Fit one design, and that design with terms added."
        )
        raise ValueError(msg)
    facts = [
        {"variable": m.spec["variable"], "dim": m.spec["dim"]}
        | {key: m.spec["arguments"][key] for key in ALIKE}
        for m in (model, other)
    ]
    spans = [m.spec["span"] for m in (model, other)]
    if None not in spans:
        facts = [fact | {"span": span} for fact, span in zip(facts, spans, strict=True)]
    unlike = [
        f"{key} {value!r} and {facts[1][key]!r}"
        for key, value in facts[0].items()
        if value != facts[1][key]
    ]
    if unlike:
        msg = (
            f"the fits of {model.title} were made with {'; '.join(unlike)}. Models are compared "
            "on the same samples: solve both with the same cube and arguments."
        )
        raise ValueError(msg)
    if set(model.pixel_dims) != set(other.pixel_dims):
        msg = (
            f"the fits of {model.title} have the pixel dims {model.pixel_dims} and "
            f"{other.pixel_dims}. Select the same pixels from both."
        )
        raise LabelError(msg)
    _refuse_other_place(model, other)
    if len(small.names) < len(large.names) and not _is_part(small, large):
        msg = (
            f"the design {small.terms} is no part of {large.terms}, although the names of its "
            "params are: an F test needs nested models. Give the terms the same periods."
        )
        raise ValueError(msg)


def _is_part(small: Model, large: Model) -> bool:
    """Return whether the columns of a design lie in the span of those of another.

    Told on labels over the span of the samples, more of them than params; what is not known of a
    design given as a matrix is taken for granted.
    """
    part, whole, span = small.terms, large.terms, large.spec["span"]
    if part is None or whole is None or span is None or span[0] == span[1]:
        return True
    at = spread(span, whole, str(large.spec["dim"]), 4 * len(large.names) + 16)
    inner, outer = part.evaluate(at).matrix, whole.evaluate(at).matrix
    norms = np.linalg.norm(outer, axis=0)
    outer = outer / np.where(norms > 0, norms, 1.0)
    rest = inner - outer @ np.linalg.lstsq(outer, inner, rcond=None)[0]
    return bool((np.linalg.norm(rest, axis=0) <= PART * np.linalg.norm(inner, axis=0)).all())


def _refuse_other_place(model: Model, other: Model) -> None:
    """Refuse fits selected at different labels of a dim that is gone from both."""
    for dim in model.spec["dims"]:
        first, second = (m.coef.coords.get(dim) for m in (model, other))
        if dim in model.pixel_dims or first is None or second is None:
            continue
        if not np.array_equal(first.values, second.values):
            msg = (
                f"the fits are at {dim!r} {first.values} and {second.values}. "
                "Select the same pixels."
            )
            raise LabelError(msg)


def _statistics(*facts: NDArray[Any]) -> tuple[NDArray[np.float64], ...]:
    """Return F, its p-value and the difference of AIC from rss, rank and nobs of both fits."""
    rss, rank, nobs, other_rss, other_rank, other_nobs = (
        np.asarray(fact, np.float64) for fact in facts
    )
    dof_within = nobs - np.maximum(rank, other_rank)
    # NaN stands for other samples, and for no samples left over to measure the noise by.
    fair = np.where((nobs == other_nobs) & (dof_within > 0), 1.0, np.nan)
    dof_between = np.abs(rank - other_rank)
    larger = rank > other_rank
    low, high = np.where(larger, other_rss, rss), np.where(larger, rss, other_rss)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gain = np.maximum(low - high, 0.0)  # below 0 by rounding alone
        fvalue = fair * (gain / dof_between) / (high / dof_within)
        fvalue = np.where(dof_between > 0, fvalue, np.nan)
        # Twice the ranks, and what of the likelihoods does not cancel at equal nobs and weights
        aic = fair * (nobs * (np.log(rss) - np.log(other_rss)) + 2 * (rank - other_rank))
    return fvalue, f_tail(fvalue, dof_between, dof_within), aic
