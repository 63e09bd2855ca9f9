"""Fits into files: open, cut into chunks, solve, write, count."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from xr_lstsq.formats.table import FORMATS, Format, by_suffix
from xr_lstsq.runs.cluster import Stages, cluster_errors, connected, shared
from xr_lstsq.runs.events import Progress, Teller, history_line, plain, program
from xr_lstsq.runs.inputs import Given, Inputs, fingerprint
from xr_lstsq.runs.job import lazy_fit
from xr_lstsq.runs.source import read_errors, refuse_processes

__all__ = ["RunSummary", "solve_file"]


@dataclass(frozen=True)
class RunSummary:
    """What a run has done.

    Attributes
    ----------
    files : tuple of Path
        The files written.
    pixels : int
        Number of pixels.
    statuses : dict of str to int
        Number of pixels of each status; statuses that no pixel has are in it with 0.
    seconds : float
        Wall-clock time.
    stages : dict of str to float
        Seconds spent in ``read`` (with unpacking), ``copy`` (to the device, in the order and dtype
        of the solver, and back), ``solve`` and ``write``. Those of all threads and workers are
        added up, so together they may be more than `seconds`.
    """

    files: tuple[Path, ...]
    pixels: int
    statuses: dict[str, int]
    seconds: float
    stages: dict[str, float] = field(default_factory=dict)


def solve_file(
    source: Given,
    output: str | os.PathLike[str],
    design: Any,
    *,
    group: str | None = None,
    band: int | str | Mapping[str, int | str] | None = None,
    var: str | None = None,
    dim: Hashable | None = None,
    weights: str | None = None,
    valid: str | None = None,
    store: Literal["float32", "float64"] | None = None,
    chunks: Mapping[str, int] | None = None,
    max_memory: int | str | None = None,
    scheduler: str | None = None,
    skip_unreadable: bool = False,
    complevel: int | None = None,
    cog: bool | None = None,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
    tell: Teller | None = None,
    **options: Any,
) -> RunSummary:
    """Fit a cube in a file and write the fit to a file, in bounded memory.

    Parameters
    ----------
    source : str, path-like, sequence or mapping
        Where the cube is: a netCDF file or a Zarr store; several netCDF files, by a pattern with
        ``*`` or one by one, that are joined along the dim in whose coordinate they differ; a stack
        of GeoTIFF files, by a pattern such as ``"ndvi_{time}.tif"`` or
        ``"{reference}_{secondary}.tif"``, by a mapping of variables to patterns, or by a table of
        files (.csv), see `formats.geotiff.open_stack`.
    output : str or path-like
        The fit, netCDF, Zarr or GeoTIFF by its suffix. It appears when the fit is complete, and
        replaces one of that name. ``OUT.tif`` stands for a file a variable: ``OUT_coef.tif``,
        ``OUT_status.tif``.
    design : str, Term, DataArray or array
        As in `xr_lstsq.solve`.
    group : str, optional
        Group of netCDF files or a Zarr store, such as ``"science/grids"``.
    band : int, str or mapping of str to int or str, optional
        Number (from 1) or description of the band that is read of each GeoTIFF file, or those of
        each variable, where files have several.
    var : str, optional
        Variable to fit. None takes the only one that can be fitted.
    dim : hashable, optional
        Sample dim. None as in `xr_lstsq.solve`.
    weights, valid : str, optional
        Names of variables of the file, as in `xr_lstsq.solve`.
    store : {"float32", "float64"}, optional
        Type of the floats in the file; the fit itself is computed in ``dtype``.
    chunks : mapping of str to int, optional
        Pixels of a chunk along each pixel dim. None follows the storage of the file.
    max_memory : int or str, optional
        Memory of this whole process, in bytes or as ``"2GB"``, at least 500 MB: chunks, threads,
        what is written at once and the solver are cut to it. On a cluster, of each worker; None
        takes there what the workers are allowed.
    scheduler : str, optional
        Address of a dask scheduler, whose workers must see `source` under the same name. None is
        the scheduler in force.
    skip_unreadable : bool
        True gives pixels of chunks that cannot be read the status failed, NaN, and nobs and rank 0,
        each chunk with a warning, instead of ending with an error.
    complevel : int, optional
        Level of zlib for the floats of a netCDF file, 0 (none) to 9. None is 0.
    cog : bool, optional
        Whether GeoTIFF files are cloud optimized, with overviews. None is False.
    resume : bool
        True goes on with a run into this Zarr store that was interrupted, where there is one. It
        must have been given the same arguments and inputs. The finished store equals, bit for bit,
        one that was written without an interruption.
    progress : callable, optional
        Called with the numbers of pixels done and in all, first with 0 done.
    tell : callable, optional
        Called with a dict for each event (see Notes).
    **options
        Further arguments of `xr_lstsq.solve`, such as ``stats`` or ``nodata``.

    Returns
    -------
    RunSummary
        Counts by status and the time taken.

    Raises
    ------
    LabelError, ChunkError, DtypeError, ValueError
        An argument that does not fit, before any work; among them those of a run to resume that
        was given others.
    FileNotFoundError, OSError
        A file that cannot be read.
    WriteError
        A file that cannot be written; nothing of it is left, but of a Zarr store what ``resume``
        needs.
    RuntimeError
        A cluster whose workers die on a chunk again and again.

    Notes
    -----
    A chunk holds all samples of its pixels, about 64 MiB of cube, in whole storage chunks of the
    file where these allow it. A file that stores whole maps is read once for every chunk; a warning
    says so, and how to store it better.

    Events are plain data with the keys ``event`` and ``time`` (UTC, ISO 8601), and

    - ``start``: ``pixels``, ``program``, ``source``, ``output``, ``arguments``, ``chunks`` (pixels
      of the largest chunk along each dim), ``threads``, ``budget`` (bytes of each share of
      `max_memory`, or null);
    - ``window``, of chunks that are written: ``pixels``, ``done`` and ``total`` (pixels),
      ``seconds`` since the one before, ``stages``;
    - ``end``: ``pixels``, ``statuses``, ``seconds``, ``stages``, ``peak_bytes`` (of this process,
      null where the system does not tell);
    - ``error``: ``error`` (its class), ``message``, ``done``, ``seconds``.
    """
    counter = Progress(progress, tell)
    names = {"var": var, "dim": dim, "weights": weights, "valid": valid, "chunks": chunks}
    inputs = Inputs.of(source, group=group, band=band)
    try:
        file_format = by_suffix(output)
        own = _own_arguments(
            file_format, output, complevel=complevel, cog=cog, resume=resume or None
        )
        sources = inputs.files()
        file_format.module.check_target(output, sources)
        with connected(scheduler), cluster_errors(), read_errors(inputs):
            refuse_processes()
            stages = counter.stages = Stages()
            with lazy_fit(
                inputs, design, names, options, max_memory=max_memory, skip=skip_unreadable
            ) as job:
                given = job.given(design, options)
                counter.begin(
                    job.fit["status"],
                    program=program(),
                    source=str(inputs),
                    output=str(output),
                    arguments=plain(given),
                    **job.facts(),
                )
                if "fingerprint" in file_format.writes:
                    own["fingerprint"] = fingerprint(inputs, given)
                if "shown" in file_format.writes:
                    own["shown"] = [job.fit["status"].name]
                with job.limits():
                    files = file_format.module.write(
                        shared(job.fit),
                        output,
                        sources=sources,
                        store=store,
                        history=history_line(f"solve '{inputs}'", given),
                        on_block=counter.add,
                        **own,
                    )
            spent = stages()
    except BaseException as error:
        counter.fail(error)
        raise
    counter.end(spent)
    return RunSummary(tuple(files), counter.total, counter.statuses, counter.seconds, spent)


def _own_arguments(one: Format, output: str | os.PathLike[str], **given: Any) -> dict[str, Any]:
    """Return the arguments that only some formats take, and refuse those that this one does not."""
    own = {name: value for name, value in given.items() if value is not None}
    for name in own:
        if name not in one.writes:
            others = [other for other in FORMATS if name in other.writes]
            suffix = others[0].suffixes[0]
            msg = (
                f"{name}={own[name]!r} was given, and a run into {one.name} knows no {name}. Leave "
                f"it out, or write {others[0].name}, such as {Path(output).stem}{suffix}."
            )
            raise ValueError(msg)
    return own
