"""Values at every date, from a fit by a network of pairs."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design.dates import MISSING
from xr_lstsq.design.network import Network, displacements
from xr_lstsq.inference.coordinates import as_coordinate
from xr_lstsq.inference.products import weigh
from xr_lstsq.inference.reading import Model, read
from xr_lstsq.outputs import multiply_units

__all__ = ["DATE", "Undetermined", "date_matrix", "series_of", "timeseries"]

Undetermined: TypeAlias = Literal["nan", "min_norm"]
DATE = "date"
"""Dim of the dates of a network."""
NAME = "displacement"
"""What the values of a cube without a name are called."""


def timeseries(fit: xr.Dataset, undetermined: Undetermined = "nan") -> xr.DataArray | xr.Dataset:
    """Return the values of a fit by a network of pairs at its dates.

    Parameters
    ----------
    fit : Dataset
        A fit with `xr_lstsq.design.network` among its terms.
    undetermined : {"nan", "min_norm"}
        What stands at dates that the pairs of a pixel do not determine: NaN, or what its
        minimum-norm params give, as other software of the field has it.

    Returns
    -------
    DataArray or Dataset
        (date, pixel dims), with the name of the cube, or ``displacement`` where that has none, and
        its units; a Dataset for the fit of a Dataset. 0 at the reference date, which
        ``attrs["reference_date"]`` tells, NaN throughout where a pixel was not solved. Lazy where
        the fit is. A cube of its own: ``.lstsq.trend()`` and all others take it.

    Raises
    ------
    ValueError
        For a fit without a network or without some of its params, and a Dataset that is no fit.
    LabelError
        For a fit with a coordinate called ``date``.

    Notes
    -----
    A pixel determines the value at a date where pairs that it has lead from there to the reference
    date, over other dates or not. Which it has, only residuals tell: solve with
    ``stats="residual"``. Of a fit without them, a pixel of short rank has a value at the reference
    date alone. With a constraint in the network every date is determined, by that.

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> from xr_lstsq import design
    >>> dates = np.array(["2020-01-01", "2020-01-13", "2020-01-25"], dtype="datetime64[ns]")
    >>> pairs = {"reference": ("pair", dates[[0, 0, 1]]), "secondary": ("pair", dates[[1, 2, 2]])}
    >>> cube = xr.DataArray([[1.0], [3.0], [2.0]], pairs, ("pair", "x"))
    >>> fit = cube.lstsq.solve(design.network(), "pair", stats="residual")
    >>> timeseries(fit).round(6).values
    array([[0.],
           [1.],
           [3.]])
    """
    check_undetermined(undetermined)
    models = read(fit)
    parts = {model: series_of(model, undetermined) for model in models}
    if len(models) == 1 and not models[0].prefix:
        return parts[models[0]].rename(models[0].spec["variable"] or NAME)
    named = {model.prefix.removesuffix("_") or model.title: one for model, one in parts.items()}
    return xr.Dataset(named, attrs=fit.attrs)


def check_undetermined(undetermined: str) -> None:
    """Refuse a choice that is not known.

    Raises
    ------
    ValueError
        With those that are.
    """
    if undetermined not in ("nan", "min_norm"):
        msg = f"undetermined={undetermined!r} is not known. Choose from 'nan', 'min_norm'."
        raise ValueError(msg)


def series_of(model: Model, undetermined: Undetermined) -> xr.DataArray:
    """Return the values of one fitted variable at the dates of its network.

    Parameters
    ----------
    model : Model
        What was fitted.
    undetermined : {"nan", "min_norm"}
        What stands at dates that a pixel does not determine.

    Returns
    -------
    DataArray
        (date, pixel dims), with the dtype of the coefficients.
    """
    model.refuse_taken((DATE,))
    network, matrix = date_matrix(model)
    values = weigh(model.coef, [model.param_dim], matrix)
    attrs = _attrs(model, network)
    if undetermined == "nan" and network.constraint is None:
        values = values.where(_determined(model, network))
        if model.get("residual") is None:
            attrs["comment"] = (
                "pixels of short rank are NaN at all other dates: solve with stats='residual', "
                "which tells the dates that they determine"
            )
    values = values.transpose(DATE, *model.pixel_dims)
    return model.finish(values, attrs).assign_coords({DATE: matrix[DATE]})


def date_matrix(model: Model) -> tuple[Network, xr.DataArray]:
    """Return the network of a fit, and what makes values at its dates of the params.

    Returns
    -------
    network : Network
        The term, bound.
    matrix : DataArray of float64, (date, param dim)
        Rows of 0 at the reference date, columns of 0 for params of other terms, in the order of
        the fit's params; with the coordinate of the dates.

    Raises
    ------
    ValueError
        For a fit without a network, and one that lacks params of its design.
    """
    terms = model.terms
    found = [] if terms is None else [one for one in terms.terms if isinstance(one, Network)]
    if not found:
        msg = (
            f"the fit of {model.title} has no network of pairs among its terms, and only that has "
            "dates of its own. Solve with xr_lstsq.design.network()."
        )
        raise ValueError(msg)
    _refuse_part(model)
    model.refuse_joined()
    dates, own = displacements(found[0])
    whole = np.zeros((len(dates), len(model.names)))
    whole[:, [model.names.index(name) for name in found[0].names]] = own
    coord = as_coordinate(list(dates), found[0], DATE)
    return found[0], xr.DataArray(whole, {DATE: coord}, (DATE, model.param_dim))


def _refuse_part(model: Model) -> None:
    """Refuse a fit that holds only some of the params of its design."""
    absent = [name for name in model.spec["names"] if name not in model.names]
    if absent:
        msg = (
            f"the fit of {model.title} lacks the params {absent} of its design, and a time series "
            f"needs all. Take it from the fit before selecting along {model.param_dim!r}."
        )
        raise ValueError(msg)


def _attrs(model: Model, network: Network) -> dict[str, Any]:
    """Return the attributes of values that count from the reference date."""
    attrs = dict(model.spec["attrs"])
    if "units" in attrs:
        attrs["units"] = multiply_units(str(attrs["units"]), "", difference=True)
    what = attrs.get("long_name", model.title)
    return attrs | {
        "long_name": f"{what}, since {network.reference_date}",
        "reference_date": str(network.reference_date),
    }


def _determined(model: Model, network: Network) -> xr.DataArray:
    """Return at which dates the pairs of each pixel tell the value, (date, pixel dims)."""
    (rank,) = model.need(("rank",), "a time series")
    texts = list(network.dates or ())
    facts = {
        "params": len(model.names),
        "dates": len(texts),
        "zero": texts.index(str(network.reference_date)),
        "pairs": [],
    }
    dim = str(model.spec["dim"])
    residual, own = model.get("residual"), []
    if residual is not None:
        own = [residual.chunk({dim: -1}) if residual.chunks is not None else residual]
        ends = network.ends(residual[dim])
        facts["pairs"] = [
            (texts.index(first), texts.index(second)) if MISSING not in (first, second) else None
            for first, second in zip(ends.reference, ends.secondary, strict=True)
        ]
    known = xr.apply_ufunc(
        _tell,
        rank,
        *own,
        input_core_dims=[[], *([dim] for _ in own)],
        output_core_dims=[[DATE]],
        kwargs=facts,
        keep_attrs=False,
        dask="parallelized",
        output_dtypes=[np.bool_],
        dask_gufunc_kwargs={"output_sizes": {DATE: len(texts)}},
    )
    # Without labels: those of the dates are put on later, those of the pixels are the fit's
    bare: xr.DataArray = known.drop_vars(list(known.coords))
    return bare


def _tell(
    rank: NDArray[Any],
    residual: NDArray[Any] | None = None,
    *,
    params: int,
    dates: int,
    zero: int,
    pairs: list[tuple[int, int] | None],
) -> NDArray[np.bool_]:
    """Return which dates are determined, (*pixels, dates), from ranks and (*pixels, n) residuals.

    A value is determined against the reference date exactly where pairs that count connect the
    two. The params then have one direction free for each other part of the network. Where more are
    free, those of other terms mix with the values, and no date is taken for determined.
    """
    known = np.ones((*rank.shape, dates), dtype=np.bool_)
    short = rank < params
    known[short] = np.arange(dates) == zero
    if residual is None or not short.any():
        return known
    counts = np.packbits(np.isfinite(residual[short]), axis=-1)
    # Gaps are the same in many pixels
    patterns, which = np.unique(counts, axis=0, return_inverse=True)
    there = np.unpackbits(patterns, axis=-1, count=residual.shape[-1]).astype(np.bool_)
    part, which = _parts(there, pairs, dates), which.reshape(-1)
    free = (part == np.arange(dates)).sum(axis=-1) - 1
    plain = params - rank[short] == free[which]
    connected = part == part[:, [zero]]
    known[short] |= connected[which] & plain[:, np.newaxis]
    return known


def _parts(
    there: NDArray[np.bool_], pairs: list[tuple[int, int] | None], dates: int
) -> NDArray[np.intp]:
    """Return the earliest date that is connected with each, (k, dates), by k sets of pairs."""
    part = np.tile(np.arange(dates), (len(there), 1))
    before = None
    while before is None or (part != before).any():
        before = part.copy()
        for number, pair in enumerate(pairs):
            if pair is None:
                continue
            lower = part[:, list(pair)].min(axis=1)
            for end in pair:
                part[:, end] = np.where(there[:, number], lower, part[:, end])
    return part
