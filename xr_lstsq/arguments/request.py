"""A whole call: every cube with everything that its fit needs, checked before any work."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import xarray as xr

from xr_lstsq import blocks, labels, outputs
from xr_lstsq.arguments.inputs import (
    Job,
    names_used,
    read_design,
    read_method,
    read_samples,
    shared_dims,
)
from xr_lstsq.arguments.options import Options, read_options
from xr_lstsq.design import parse
from xr_lstsq.errors import warn

__all__ = ["Request", "read_request"]

SHOWN = 8
"""Names of params in one warning."""


@dataclass(frozen=True, eq=False)
class Request:
    """What a call asks for.

    Attributes
    ----------
    jobs : tuple of Job
        One for each cube to fit.
    cubes : Dataset or None
        The Dataset whose variables they are, with grid mappings as coordinates; None when the call
        was given one DataArray.
    """

    jobs: tuple[Job, ...]
    cubes: xr.Dataset | None


def read_request(
    cube: xr.DataArray | xr.Dataset,
    design: Any,
    dim: Hashable | None,
    *,
    data: Any,
    weights: Any,
    valid: Any,
    **options: Any,
) -> Request:
    """Check and match all arguments of a call of `xr_lstsq.solve`.

    Raises
    ------
    LabelError, ChunkError, DtypeError, DeviceError, ValueError, TypeError
        For an argument that does not fit; those that differ between the variables of a Dataset all
        in one error.
    """
    read = read_options(**options)
    _check_device(read)
    if isinstance(design, str):
        design = parse(design)
    if isinstance(cube, xr.Dataset):
        return _read_dataset(cube, design, dim, data, {"weights": weights, "valid": valid}, read)
    if not isinstance(cube, xr.DataArray):
        msg = f"cube is a {type(cube).__name__}. Pass an xarray.DataArray or xarray.Dataset."
        raise TypeError(msg)
    if data is not None:
        msg = f"data={data!r} names variables of a Dataset, and the cube is a DataArray. Drop it."
        raise ValueError(msg)
    job = _read_job(cube, design, dim, {"weights": weights, "valid": valid}, read)
    _warn_inseparable(job)
    return Request((job,), None)


def _check_device(options: Options) -> None:
    """Refuse a device that is not there; on a cluster only the workers can know."""
    from xr_lstsq import device  # torch is imported by the first solve, not before

    if blocks.scheduler_name() == "distributed":
        device.check_name(options.device)
    else:
        device.resolve(options.device)


def _read_dataset(
    cubes: xr.Dataset,
    design: Any,
    dim: Hashable | None,
    data: Any,
    given: dict[str, Any],
    options: Options,
) -> Request:
    """Read the jobs of a Dataset's variables; the faults of all are found before any work."""
    used = names_used(cubes, given)
    dim = labels.find_dim(cubes, dim, shared_dims(design, options.param_dim))
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
        warn(msg)
    samples = given | {k: cubes[v] for k, v in used.items()}
    jobs, faults = [], []
    for name in chosen.fitted:
        try:
            jobs.append(_read_job(cubes[name], design, dim, samples, options, prefix=f"{name}_"))
        except (ValueError, TypeError) as fault:
            faults.append(fault)
    if faults:
        kinds = {type(fault) for fault in faults}
        kind = kinds.pop() if len(kinds) == 1 else ValueError
        raise kind(" ".join(dict.fromkeys(map(str, faults))))
    _warn_inseparable(jobs[0])
    return Request(tuple(jobs), cubes)


def _warn_inseparable(job: Job) -> None:
    """Warn of params that the samples cannot tell apart, whatever the pixel."""
    names = job.design.inseparable
    if names:
        some = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" * (len(names) > SHOWN))
        held = "NaN" if job.options.deficient == "nan" else "minimum-norm values"
        msg = (
            f"the {job.design.array.sizes[job.dim]} samples along {job.dim!r} cannot tell {some} "
            f"apart, so every pixel is rank_deficient and holds {held}. Drop a term, or fit "
            "samples that reach across it."
        )
        warn(msg)


def _read_job(
    cube: xr.DataArray,
    design: Any,
    dim: Hashable | None,
    samples: dict[str, Any],
    options: Options,
    prefix: str = "",
) -> Job:
    """Check and match everything that belongs to one cube."""
    dim = labels.find_dim(cube, dim, shared_dims(design, options.param_dim))
    labels.refuse_dtype([cube])
    labels.refuse_taken(
        cube,
        dim,
        tuple(prefix + row.name for row in options.outputs),
        outputs.own_axes(options.outputs, options.param_dim),
        keeps_samples=any(row.shape == "sample" for row in options.outputs),
    )
    if any(row.name == "temporal_coherence" for row in options.outputs):
        labels.refuse_but_radians(cube)
    if not options.rechunk:
        blocks.refuse_cut(cube.data, cube.dims.index(dim), dim, labels.shown(cube))
    return Job(
        cube=cube,
        dim=dim,
        design=read_design(design, cube, dim, options.param_dim),
        weights=read_samples(samples["weights"], cube, dim, "weights"),
        valid=read_samples(samples["valid"], cube, dim, "valid"),
        method=read_method(options.method, cube, dim),
        options=options,
        prefix=prefix,
    )
