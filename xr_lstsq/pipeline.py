"""The whole flow in order: labels off, blocks solved, labels on. Only this file sees each step."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import xarray as xr

from xr_lstsq import arguments, blocks, fits, labels, outputs
from xr_lstsq.arguments import Job
from xr_lstsq.design import Term

if TYPE_CHECKING:
    from xr_lstsq.device import Plan

__all__ = ["Unlabelled", "solve", "take_labels_off"]


@arguments.refuse_foreign
def solve(
    cube: xr.DataArray | xr.Dataset,
    design: xr.DataArray | Term | str | Any,
    dim: Hashable | None = None,
    *,
    data: Hashable | Iterable[Hashable] | None = None,
    weights: xr.DataArray | str | Any | None = None,
    valid: xr.DataArray | str | Any | None = None,
    nodata: float | Iterable[float] | None = None,
    min_obs: int = 1,
    deficient: str = "min_norm",
    rcond: float | None = None,
    stats: str | Iterable[str] = (),
    cov_type: str = "nonrobust",
    maxlags: int | None = None,
    absolute_sigma: bool = False,
    noise: str | None = None,
    level: float = 0.95,
    dtype: str = "float64",
    device: str = "auto",
    max_memory: int | str | None = None,
    rechunk: bool = False,
    param_dim: str = "param",
) -> xr.Dataset:
    """Fit one linear model to every pixel of a labelled cube.

    Minimises sum_i w_i (y_i - a_i x)^2 over the samples of each pixel that count, for all pixels
    together. The answer of a pixel equals dropping its missing rows and solving in float64; where
    its rows do not determine all params, it is the minimum-norm answer.

    Parameters
    ----------
    cube : DataArray or Dataset
        Samples with the dim `dim` and any pixel dims, in memory or dask; any real dtype. A Dataset
        is fitted variable by variable.
    design : DataArray, Term, str or array
        A DataArray with the dims (dim, param), plus pixel dims when it differs per pixel; a term
        of `xr_lstsq.design`; a string in its grammar such as ``"polynomial(1) + harmonics(1)"``,
        or a formula, ``"~ 1 + years + C(sensor)"``; or a plain (n, p) array in the cube's order.
    dim : hashable, optional
        The sample dim. None takes the one dim shared with a labelled (dim, param) design, else the
        cube's only dim of dates.
    data : name or names, optional
        Variables of a Dataset to fit. None takes every real numeric variable that has `dim`, apart
        from bounds, flags, and those named in `weights` or `valid`.
    weights : DataArray, array or name, optional
        Inverse variances, which multiply the squared residual; any subset of the cube's dims.
        0, NaN and infinity leave the sample out. Negative ones raise when in memory, and make
        the pixel fail when lazy.
    valid : DataArray, array or name, optional
        True where a sample counts; bool, or integers that hold only 0 and 1.
    nodata : number or numbers, optional
        Values of the cube that also mean missing, beside those in its attrs.
    min_obs : int
        Fewest samples with which a pixel is solved.
    deficient : {"min_norm", "nan"}
        What a pixel holds whose samples do not determine all params (status 3 either way).
    rcond : float, optional
        Cut-off of the rank, relative to the largest singular value of the pixel's valid weighted
        rows with columns of unit norm. None means eps * max(nobs, p).
    stats : name or names
        Variables to return beside those always there: dof, rss, rmse, resid_std, rsquared,
        rsquared_adj, stderr, tvalue, pvalue, conf_int, cov, cond, leverage, residual, fitted,
        fvalue, f_pvalue, aic, bic, loglik, temporal_coherence (each said in the reference of
        outputs). ``"default"`` stands for dof, resid_std, stderr and rsquared. Only what is asked
        for is computed.
    cov_type : {"nonrobust", "HC0", "HC1", "HC2", "HC3", "HAC", "ar1"}
        How stderr, tvalue, pvalue, conf_int and cov are made; coefficients do not change.
        ``"nonrobust"``: samples of equal variance over weight, independent. ``"HC0"`` to ``"HC3"``:
        of any variance (MacKinnon and White 1985). ``"HAC"``: of any variance, and correlated over
        at most `maxlags` steps of time, with weights 1 - lag / (maxlags + 1) and without a
        correction for small samples (Newey and West 1987). ``"ar1"``: correlated as exp(-lag),
        so that nobs samples say no more than n_eff = nobs (1 - rho) / (1 + rho) independent ones:
        resid_std and stderr are those of dof = n_eff - rank (Santer et al. 2008). Lags are counted
        in time, so gaps and irregular steps count as long as they are.
    maxlags : int, optional
        Steps of time, for ``cov_type="HAC"``. None takes the whole part of 4 (n / 100)^(2/9), n
        samples long or short of gaps (Newey and West 1994).
    absolute_sigma : bool
        True when weights are true inverse variances: errors then do not depend on the residuals,
        and tests and intervals are those of the normal distribution.
    noise : {None, "ar1"}
        ``"ar1"`` fits a second time, by generalised least squares, for noise that is correlated as
        the residuals of the first fit are (feasible GLS; Prais and Winsten 1954). rss, rsquared,
        leverage and likelihood are then those of whitened samples. A pixel with too few pairs of
        samples for that gets status too_few_obs.
    level : float
        Level of confidence of conf_int.
    dtype : {"float64", "float32"}
        Dtype of the answer. ``"float32"`` also solves in float32, which is faster and off by about
        1e-7 of the size of a pixel's samples, over its smallest eigenvalue (see the explanation
        of the solver); ranks and statuses are those of float64.
    device : str
        ``"auto"`` takes CUDA where torch sees it, else the CPU; or ``"cpu"``, ``"cuda"``,
        ``"cuda:1"``.
    max_memory : int or str, optional
        Working memory of all blocks in flight on the device, in bytes or as ``"2GB"``.
    rechunk : bool
        Join chunks along `dim` instead of raising.
    param_dim : str
        Name of the param dim, of a labelled design and of the fit.

    Returns
    -------
    Dataset
        ``coef`` (param, pixel dims), ``nobs``, ``rank``, ``status`` and the `stats`; of a Dataset
        with the prefix ``<variable>_``. Lazy when the cube, `weights`, `valid` or `design` is:
        compute the fit as a whole, since all of its variables come from one pass over the cube.

    Raises
    ------
    LabelError
        For dims, labels or names that do not fit together.
    ChunkError
        For a cube in several chunks along `dim`, unless `rechunk`.
    DtypeError
        For values that are not real numbers.
    DeviceError
        For a device that is not there, or too small for a single pixel.
    ValueError
        For any other argument that is not allowed. All are raised before any work.

    Notes
    -----
    With ``cov_type="ar1"`` or ``noise="ar1"`` the fit also has rho and n_eff. rho is the
    correlation of a pixel's residuals, times the root of their weights, over the pairs of samples
    that are truly one step of time apart; on irregular time that of noise which decays as
    exp(-dt / tau), over a median step (Mudelsee 2002). Negative values are set to 0; under 10 pairs
    it is NaN. These two and ``"HAC"`` need samples along one time axis.

    Without degrees of freedom, resid_std, stderr, tests and intervals are NaN. At short rank stderr
    is the error of the minimum-norm estimate, not of a param that the samples determine.

    Rank is judged on columns of unit norm, so rank, status, fitted values and rss never move when
    a regressor changes units. A minimum-norm answer is in the coefficients' own units, and so
    depends on them by definition.

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> time = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[ns]")
    >>> cube = xr.DataArray([[1.0, 5.0], [2.0, np.nan], [3.0, 7.0]], {"time": time}, ("time", "x"))
    >>> fit = cube.lstsq.solve("polynomial(1)")
    >>> fit.coef.sel(param="slope").round(3).values
    array([0.999, 0.999])
    >>> fit.nobs.values
    array([3, 2], dtype=int32)
    """
    request = arguments.read_request(
        cube,
        design,
        dim,
        data=data,
        weights=weights,
        valid=valid,
        nodata=nodata,
        min_obs=min_obs,
        deficient=deficient,
        rcond=rcond,
        stats=stats,
        cov_type=cov_type,
        maxlags=maxlags,
        absolute_sigma=absolute_sigma,
        noise=noise,
        level=level,
        dtype=dtype,
        device=device,
        max_memory=max_memory,
        rechunk=rechunk,
        param_dim=param_dim,
    )
    parts = [_run(job) for job in request.jobs]
    return parts[0] if request.cubes is None else fits.join(parts, request.cubes)


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """A job as blocks see it: arrays with named axes, and a plan.

    Attributes
    ----------
    labels : Labels
        What was taken off the cube.
    cube : Operand
        Its values.
    others : dict of str to Operand
        ``design``, factorised where all pixels share it, and as they are given ``weights`` and
        ``valid``.
    plan : Plan
        What a block needs to know beside these.
    """

    labels: labels.Labels
    cube: blocks.Operand
    others: dict[str, blocks.Operand]
    plan: Plan


def take_labels_off(job: Job) -> Unlabelled:
    """Return what the blocks of a job are solved from."""
    from xr_lstsq.device import Plan  # torch is imported by the first solve, not before

    options, dim, param_dim = job.options, job.dim, job.options.param_dim
    data, stripped = labels.strip(job.cube)
    dims = stripped.dims
    matrix, weights = job.design.array, job.weights
    others: dict[str, blocks.Operand] = {}
    if matrix.ndim == 2:
        shared_weights = None
        if weights is not None and weights.dims == (dim,):
            shared_weights, weights = weights.data, None
        factor = blocks.once(_factorise, matrix.data, shared_weights, options.rcond, lazy=job.lazy)
        others["design"] = blocks.Operand(factor, ())
    else:
        others["design"] = blocks.Operand(matrix.data, matrix.dims)
    if weights is not None:
        others["weights"] = blocks.Operand(weights.data, weights.dims)
    if job.valid is not None:
        others["valid"] = blocks.Operand(job.valid.data, job.valid.dims)
    plan = Plan(
        axis=dims.index(dim),
        axes={
            key: tuple(dims.index(name) for name in operand.axes if name != param_dim)
            for key, operand in others.items()
        },
        outputs=options.outputs,
        method=job.method,
        nodata=arguments.nodata_values(job.cube, options.nodata),
        min_obs=options.min_obs,
        keep_short=options.deficient == "min_norm",
        rcond=options.rcond,
        dtype=options.dtype,
        device=options.device,
        max_bytes=options.max_bytes,
        **job.design.rules,
    )
    return Unlabelled(stripped, blocks.Operand(data, dims), others, plan)


def _run(job: Job) -> xr.Dataset:
    """Take the labels off, solve every block, put the labels on."""
    bare = take_labels_off(job)
    options, dim, param_dim = job.options, job.dim, job.options.param_dim
    dims = bare.cube.axes
    pixels = tuple(name for name in dims if name != dim)
    rows = options.outputs
    names = outputs.own_axes(rows, param_dim)
    axes: dict[str, tuple[Hashable, ...]] = {
        row.shape: dims
        if row.shape == "sample"
        else (*(names[axis] for axis in outputs.AXES[row.shape]), *pixels)
        for row in rows
    }
    n, p = job.cube.sizes[dim], job.design.array.sizes[param_dim]
    sizes = outputs.axis_lengths(n, p)
    results = blocks.run(
        functools.partial(_solve_block, plan=bare.plan),
        bare.cube,
        bare.others,
        [blocks.Result(axes[row.shape], outputs.dtype_of(row, options.dtype)) for row in rows],
        whole={dim: n} | {name: sizes[axis] for axis, name in names.items()},
    )
    arrays = {row.name: array for row, array in zip(rows, results, strict=True)}
    return fits.label(job, bare.labels, arrays, axes)


def _solve_block(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Solve a block; stands here so that graphs hold it without importing torch."""
    from xr_lstsq.device import solve_block

    return solve_block(*args, **kwargs)


def _factorise(*args: Any) -> Any:
    """Factorise a shared design; stands here for the same reason."""
    from xr_lstsq.solvers.factor import factorise

    return factorise(*args)
