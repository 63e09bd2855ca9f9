"""The whole flow in order: labels off, blocks solved, labels on. Only this file sees each step."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Hashable, Iterable
from typing import Any

import xarray as xr

from xr_lstsq import arguments, blocks, fits, labels, outputs
from xr_lstsq.arguments import Job, Options
from xr_lstsq.design import Term, parse

__all__ = ["solve"]


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
        of `xr_lstsq.design`, or a string in the terms' grammar such as
        ``"polynomial(1) + harmonics(1, 2)"``; or a plain (n, p) array in the cube's order.
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
        Variables to return beside those always there, out of dof, rss, rmse, residual, fitted.
    dtype : {"float64", "float32"}
        Dtype of the answer.
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
    options = arguments.read_options(
        stats=stats,
        nodata=nodata,
        min_obs=min_obs,
        deficient=deficient,
        rcond=rcond,
        dtype=dtype,
        device=device,
        max_memory=max_memory,
        rechunk=rechunk,
        param_dim=param_dim,
    )
    _check_device(options)
    if isinstance(design, str):
        design = parse(design)
    if isinstance(cube, xr.Dataset):
        return _solve_dataset(cube, design, dim, data, weights, valid, options)
    if not isinstance(cube, xr.DataArray):
        msg = f"cube is a {type(cube).__name__}. Pass an xarray.DataArray or xarray.Dataset."
        raise TypeError(msg)
    if data is not None:
        msg = f"data={data!r} names variables of a Dataset, and the cube is a DataArray. Drop it."
        raise ValueError(msg)
    return _run(_prepare(cube, design, dim, {"weights": weights, "valid": valid}, options))


def _check_device(options: Options) -> None:
    """Refuse a device that is not there; on a cluster only the workers can know."""
    from xr_lstsq import device  # torch is imported by the first solve, not before

    if blocks.scheduler_name() == "distributed":
        device.check_name(options.device)
    else:
        device.resolve(options.device)


def _solve_block(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Solve a block; stands here so that graphs hold it without importing torch."""
    from xr_lstsq.device import solve_block

    return solve_block(*args, **kwargs)


def _factorise(*args: Any) -> Any:
    """Factorise a shared design; stands here for the same reason."""
    from xr_lstsq.solvers.factor import factorise

    return factorise(*args)


def _solve_dataset(
    cubes: xr.Dataset,
    design: Any,
    dim: Hashable | None,
    data: Any,
    weights: Any,
    valid: Any,
    options: Options,
) -> xr.Dataset:
    """Fit the variables of a Dataset; the faults of all are found before any work."""
    used = arguments.names_used(cubes, {"weights": weights, "valid": valid})
    dim = labels.find_dim(cubes, dim, arguments.shared_dims(design, options.param_dim))
    chosen = labels.choose(cubes, dim, data, used.values())
    mappings = {labels.grid_mapping(labels.strip(cubes[name])[1]) for name in chosen.fitted}
    cubes = cubes.set_coords([name for name in mappings if name in cubes.data_vars])
    left_out = {
        n: why for n, why in chosen.left_out.items() if n not in {*mappings, *used.values()}
    }
    if left_out:
        what = "; ".join(f"{name} ({why})" for name, why in left_out.items())
        msg = (
            f"fitted: {', '.join(map(str, chosen.fitted))}. Not fitted: {what}. Pass data= to say."
        )
        warnings.warn(msg, UserWarning, stacklevel=4)
    samples = {"weights": weights, "valid": valid} | {k: cubes[v] for k, v in used.items()}
    jobs, faults = [], []
    for name in chosen.fitted:
        try:
            jobs.append(_prepare(cubes[name], design, dim, samples, options, prefix=f"{name}_"))
        except (ValueError, TypeError) as fault:
            faults.append(fault)
    if faults:
        kinds = {type(fault) for fault in faults}
        kind = kinds.pop() if len(kinds) == 1 else ValueError
        raise kind(" ".join(dict.fromkeys(map(str, faults))))
    return fits.join([_run(job) for job in jobs], cubes)


def _prepare(
    cube: xr.DataArray,
    design: Any,
    dim: Hashable | None,
    samples: dict[str, Any],
    options: Options,
    prefix: str = "",
) -> Job:
    """Check and match everything that belongs to one cube."""
    dim = labels.find_dim(cube, dim, arguments.shared_dims(design, options.param_dim))
    labels.refuse_dtype([cube])
    labels.refuse_taken(
        cube,
        dim,
        tuple(prefix + name for name in options.outputs),
        options.param_dim,
        keeps_samples=any(outputs.OUTPUTS[name].shape == "sample" for name in options.outputs),
    )
    if not options.rechunk:
        blocks.refuse_cut(cube.data, cube.dims.index(dim), dim, labels.shown(cube))
    return Job(
        cube=cube,
        dim=dim,
        design=arguments.read_design(design, cube, dim, options.param_dim),
        weights=arguments.read_samples(samples["weights"], cube, dim, "weights"),
        valid=arguments.read_samples(samples["valid"], cube, dim, "valid"),
        options=options,
        prefix=prefix,
    )


def _run(job: Job) -> xr.Dataset:
    """Take the labels off, solve every block, put the labels on."""
    from xr_lstsq.device import Plan  # see _check_device

    options, dim, param_dim = job.options, job.dim, job.options.param_dim
    data, stripped = labels.strip(job.cube)
    dims = stripped.dims
    pixels = tuple(name for name in dims if name != dim)
    matrix, weights = job.design.array, job.weights
    operands: dict[str, blocks.Operand] = {}
    if matrix.ndim == 2:
        shared_weights = None
        if weights is not None and weights.dims == (dim,):
            shared_weights, weights = weights.data, None
        factor = blocks.once(_factorise, matrix.data, shared_weights, options.rcond, lazy=job.lazy)
        operands["design"] = blocks.Operand(factor, ())
    else:
        operands["design"] = blocks.Operand(matrix.data, matrix.dims)
    if weights is not None:
        operands["weights"] = blocks.Operand(weights.data, weights.dims)
    if job.valid is not None:
        operands["valid"] = blocks.Operand(job.valid.data, job.valid.dims)
    plan = Plan(
        axis=dims.index(dim),
        axes={
            key: tuple(dims.index(name) for name in operand.axes if name != param_dim)
            for key, operand in operands.items()
        },
        outputs=options.outputs,
        nodata=arguments.nodata_values(job.cube, options.nodata),
        min_obs=options.min_obs,
        keep_short=options.deficient == "min_norm",
        rcond=options.rcond,
        dtype=options.dtype,
        device=options.device,
        max_bytes=options.max_bytes,
    )
    axes = {"param": (param_dim, *pixels), "pixel": pixels, "sample": dims}
    rows = [outputs.OUTPUTS[name] for name in options.outputs]
    results = blocks.run(
        functools.partial(_solve_block, plan=plan),
        blocks.Operand(data, dims),
        operands,
        [blocks.Result(axes[row.shape], outputs.dtype_of(row, options.dtype)) for row in rows],
        whole={dim: job.cube.sizes[dim], param_dim: matrix.sizes[param_dim]},
    )
    return fits.label(job, stripped, dict(zip(options.outputs, results, strict=True)), axes)
