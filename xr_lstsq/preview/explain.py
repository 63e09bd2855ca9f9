"""`explain`: the flow of `solve` up to its blocks, and a sample of pixels in their place."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from xr_lstsq import arguments, blocks, labels, outputs, pipeline
from xr_lstsq.arguments import Job
from xr_lstsq.design import Term
from xr_lstsq.preview.explanation import Explanation, Explanations
from xr_lstsq.preview.sample import few_pixels, pixel_chunks

if TYPE_CHECKING:
    from xr_lstsq.device import Survey

__all__ = ["explain"]


@arguments.refuse_foreign
def explain(
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
) -> Explanation | Explanations:
    """Say what `solve` would do with the same arguments, and what it would take.

    At most 4096 pixels are looked at, fewer where each is much work, and solved on the device:
    drawn at random from a cube in memory, and of a lazy cube read from at most three chunks.

    Parameters
    ----------
    cube, design, dim, **others
        As in `xr_lstsq.solve`, and checked in the same way.

    Returns
    -------
    Explanation or Explanations
        Pixels in each lane of the solver, size of a batch and of each variable of the fit in bytes,
        device, precision and an estimate of the time; a table where it is printed. Of a Dataset,
        one for each variable, by its name.

    Raises
    ------
    LabelError, ChunkError, DtypeError, DeviceError, ValueError
        As in `xr_lstsq.solve`.

    Notes
    -----
    The time is that of the sample, measured here, times the number of pixels, over the cores. It
    leaves out what is not the solve: reading the cube and dask's own work. On a cluster it is the
    time that one worker would need. A GPU with few pixels may take longer.

    Examples
    --------
    >>> import numpy as np, xarray as xr, xr_lstsq
    >>> cube = xr.DataArray(np.eye(5, 3), {"t": range(5)}, ("t", "x"), name="height")
    >>> cube[:, 0] = np.nan
    >>> explanation = cube.lstsq.explain("polynomial(1)", "t", device="cpu")
    >>> explanation.lanes, explanation.precision
    ({'none': 1, 'complete': 2}, 'float64')
    >>> explanation.output_bytes
    {'coef': 48, 'nobs': 12, 'rank': 12, 'status': 3}
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
    parts = [_explain(job) for job in request.jobs]
    if request.cubes is None:
        return parts[0]
    return Explanations({part.name: part for part in parts})


def _explain(job: Job) -> Explanation:
    """Explain the fit of one cube."""
    chunks = pixel_chunks(job)
    block_pixels = math.prod(max(sizes, default=0) for sizes in chunks.values())
    few = few_pixels(job)
    sampled = few.cube.size // max(1, few.cube.sizes[job.dim])
    bare = pipeline.take_labels_off(few)
    function = functools.partial(_survey, plan=bare.plan, block_pixels=block_pixels)
    found: Survey = blocks.call(function, bare.cube, bare.others)
    n, p = job.cube.sizes[job.dim], job.design.array.sizes[job.options.param_dim]
    pixels = math.prod(size for name, size in job.cube.sizes.items() if name != job.dim)
    lengths = outputs.axis_lengths(n, p)
    batches = math.prod(map(len, chunks.values())) * -(-block_pixels // max(1, found.batch_pixels))
    return Explanation(
        name=labels.shown(job.cube),
        pixels=pixels,
        samples=n,
        params=p,
        sampled=sampled,
        lanes=_scaled(found.lanes, pixels),
        again={name: round(k * pixels / max(1, sampled)) for name, k in found.again.items()},
        device=found.device,
        cores=found.cores,
        precision=found.precision,
        batch_pixels=found.batch_pixels,
        batch_bytes=found.batch_bytes,
        output_bytes={
            row.name: math.prod(lengths[axis] for axis in outputs.AXES[row.shape])
            * pixels
            * outputs.dtype_of(row, job.options.dtype).itemsize
            for row in job.options.outputs
        },
        seconds=found.seconds * pixels / max(1, min(found.cores, batches)),
    )


def _scaled(counts: dict[str, int], total: int) -> dict[str, int]:
    """Return counts in the same shares that add up to a total."""
    if not counts:
        return {}
    ends = np.cumsum(list(counts.values()))
    sizes = np.diff(np.rint(ends / ends[-1] * total), prepend=0)
    return dict(zip(counts, sizes.astype(int).tolist(), strict=True))


def _survey(*args: Any, **kwargs: Any) -> Survey:
    """Look at a sample; stands here so that graphs hold it without importing torch."""
    from xr_lstsq.device import survey

    return survey(*args, **kwargs)
