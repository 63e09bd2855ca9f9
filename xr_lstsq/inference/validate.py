"""Check a fit against its cube: pixels are drawn and fitted again, in the plainest way."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.errors import ValidationError
from xr_lstsq.inference.bounds import Moves
from xr_lstsq.inference.drawn import Drawn, cube_of, draw, samples_of
from xr_lstsq.inference.reading import Model, read
from xr_lstsq.inference.reference import Rules
from xr_lstsq.inference.validation import Difference, Validation
from xr_lstsq.outputs import OUTPUTS

__all__ = ["validate"]

Floats = NDArray[np.float64]


def validate(
    fit: xr.Dataset,
    cube: xr.DataArray | xr.Dataset,
    *,
    weights: Any = None,
    valid: Any = None,
    n: int = 1000,
    seed: int = 0,
) -> Validation:
    """Fit pixels of a cube again, one by one in plain numpy, and compare them with a fit.

    Parameters
    ----------
    fit : Dataset
        What `xr_lstsq.solve` returned, in memory, lazy, or read from a file. Its specification
        says how it was made.
    cube : DataArray or Dataset
        What was solved, or a larger cube with the labels of the fit's pixels. Of dask arrays only
        the chunks with pixels that are drawn are read.
    weights, valid : DataArray, array or name, optional
        As they were passed to `xr_lstsq.solve`.
    n : int
        Number of pixels to draw for each variable that was fitted; all where it has no more.
    seed : int
        Of the generator that draws.

    Returns
    -------
    Validation
        The largest difference of each variable of the fit; a table where it is printed.

    Raises
    ------
    ValidationError
        When any difference lies beyond its bound, or any rank, status or number of samples is
        another; the message is the table.
    ValueError
        When the Dataset is no fit, its design differs from pixel to pixel (that is not kept), or
        weights or valid are given and the fit was made without, or the other way round.
    LabelError
        When cube and fit do not fit together.

    Notes
    -----
    Rows that do not count are dropped, what is left is solved in float64 by LAPACK, and every
    variable is made by its textbook formula; nothing of the solver is used.

    The bound of a value is how far it moves when the numbers of its pixel are moved by rounding, at
    random and in four tries, of which the largest change counts. So it follows each value's own
    condition, through all that is made of it (statistical condition estimation [1]_). Moved are, by
    at most

    - samples, design and weights: 1024 eps of each, and residuals by as much of what cancels in
      them;
    - weighted samples where coefficients are made of them: 512 eps of the norm of all,
      and 8 times that where the rank is short;
    - variances and leverage: 8 eps times the squared condition of the weighted rows, at most 1e6:
      the solver reads them from normal equations;
    - the products of scores in a robust covariance: 8 eps.

    To it comes a share of the value itself, 2e-13, and 5e-7 where it is stored in float32. For
    ``dtype="float32"`` eps is that of float32, with 64 in place of 1024, 32 times the condition in
    place of 512, and a squared condition of at most 1e3; but not for pixels that it solves in
    float64, with a condition of the design's unit-norm columns above 1e4, or above 3e5 of their
    own. Where moved numbers decide differently whether a value is NaN, or residuals that are
    nothing but rounding are divided by, it is not compared.

    References
    ----------
    .. [1] C. S. Kenney, A. J. Laub and M. S. Reese, Statistical condition estimation for linear
       systems, SIAM J. Sci. Comput. 19, 566-583, 1998, doi:10.1137/S1064827595282519.

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> from xr_lstsq.inference.validate import validate
    >>> cube = xr.DataArray(np.random.default_rng(0).normal(size=(9, 5)), dims=("t", "x"))
    >>> fit = cube.lstsq.solve(np.vander(np.arange(9.0), 2), "t", stats="rss")
    >>> validate(fit, cube).passed
    True
    >>> fit["rss"][3] *= 1 + 1e-6
    >>> validate(fit, cube)
    Traceback (most recent call last):
    ...
    xr_lstsq.errors.ValidationError: 5 of 5 pixels fitted again
    ...
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        msg = f"n={n!r} is not a whole number from 1. Pass the number of pixels to fit again."
        raise ValueError(msg)
    if not isinstance(cube, xr.DataArray | xr.Dataset):
        msg = f"cube is a {type(cube).__name__}. Pass the DataArray or Dataset that was solved."
        raise TypeError(msg)
    models = read(fit)
    if isinstance(cube, xr.DataArray) and len(models) > 1:
        names = [model.title for model in models]
        msg = f"the fit is one of {names}, and cube is a DataArray. Pass the Dataset of these."
        raise ValueError(msg)
    rng = np.random.default_rng(seed)
    given = {"weights": weights, "valid": valid}
    pixels = total = unsettled = 0
    differences: dict[str, Difference] = {}
    for model in models:
        array = cube_of(model, cube)
        drawn = draw(model, array, samples_of(model, cube, given), int(n), rng)
        found, skipped = _compare(model, drawn, rng)
        differences |= {model.prefix + name: one for name, one in found.items()}
        pixels, total = pixels + drawn.y.shape[1], total + drawn.total
        unsettled += skipped
    result = Validation(pixels, total, unsettled, differences)
    if not result.passed:
        raise ValidationError(str(result))
    return result


def _compare(
    model: Model, drawn: Drawn, rng: np.random.Generator
) -> tuple[dict[str, Difference], int]:
    """Fit drawn pixels again; return the difference of each variable, and unsettled pixels."""
    arguments = model.spec["arguments"]
    known = [field.name for field in fields(Rules) if field.name in arguments]
    columns = drawn.design
    rules = Rules(
        **{name: arguments[name] for name in known},
        to_coef=None if columns.stable is None else columns.stable.to_coef,
        required=columns.required,
        constraint=columns.constraint,
    )
    moves = Moves.of(drawn, rules, arguments["dtype"], rng)
    dtypes = [(name, values.dtype) for name, values in drawn.fit.items()]
    want: dict[str, list[Any]] = {name: [] for name in drawn.fit}
    bounds: dict[str, list[Any]] = {name: [] for name in drawn.fit}
    unsettled = 0
    for k in range(drawn.y.shape[1]):
        again, limits, settled = moves.refit(k, dtypes)
        unsettled += not settled
        for name in drawn.fit:
            want[name].append(again.values[name])
            bounds[name].append(limits[name])
    found = {
        name: _difference(
            got,
            np.stack(want[name], axis=-1, dtype=np.float64),
            np.stack(bounds[name], axis=-1),
            along_params=OUTPUTS[name].shape not in ("pixel", "sample"),
        )
        for name, got in drawn.fit.items()
    }
    return found, unsettled


def _difference(got: Any, want: Floats, bound: Floats, *, along_params: bool) -> Difference:
    """Return the difference of a variable, arrays with the pixels last.

    Where the bound is infinite nothing is compared.
    """
    compared = bound < np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        same = (got == want.astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
        size = np.abs(np.where(np.isfinite(want), want, 0.0))
        off = np.where(same | ~compared, 0.0, np.abs(got - want))
    off = np.where(np.isnan(off), np.inf, off)
    axes = tuple(range(1, size.ndim)) if along_params else None
    scale = size.max(axis=axes, keepdims=True, initial=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative, of_bound = (np.where(off > 0, off / by, 0.0) for by in (scale, bound))
    beyond = (of_bound > 1).reshape(-1, of_bound.shape[-1]).any(axis=0)
    return Difference(
        values=int(compared.sum()),
        absolute=float(off.max(initial=0.0)),
        relative=float(relative.max(initial=0.0)),
        of_bound=float(of_bound.max(initial=0.0)),
        pixels=int(beyond.sum()),
    )
