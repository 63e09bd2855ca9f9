"""A fit that exists, eager or lazy, into a file."""

from __future__ import annotations

import os
from typing import Any, Literal

import xarray as xr

from xr_lstsq import fits
from xr_lstsq.formats.table import by_name, by_suffix
from xr_lstsq.runs.bar import bar
from xr_lstsq.runs.cluster import cluster_errors, shared
from xr_lstsq.runs.events import history_line
from xr_lstsq.runs.source import refuse_processes

__all__ = ["write_fit"]


def write_fit(
    fit: xr.Dataset,
    path: str | os.PathLike[str],
    name: str,
    *,
    store: Literal["float32", "float64"] | None = None,
    progress: bool = False,
    **own: Any,
) -> None:
    """Write a fit, eager or lazy, to a file; a lazy one in bounded memory.

    Parameters
    ----------
    fit : xarray.Dataset
        The fit.
    path : str or path-like
        File to write. It appears when it is complete, and replaces one of that name.
    name : str
        Name of the format.
    store : {"float32", "float64"}, optional
        Type of the floats in the file; None keeps theirs.
    progress : bool
        Whether a bar of pixels done and the time left is shown on standard error.
    **own
        Arguments of this format alone.

    Raises
    ------
    WriteError
        A file that cannot be written; nothing of it is left.
    ValueError
        A path that is read by the fit or has the suffix of another format, a fit that the format
        cannot hold, or dask's process scheduler.
    """
    file_format = by_name(name)
    other = by_suffix(path)
    if other is not file_format:
        msg = f"'{path}' has a suffix of {other.name}, and {name} is to be written. Use one of "
        raise ValueError(msg + f"{', '.join(file_format.suffixes)}.")
    if any(variable.chunks is not None for variable in fit.variables.values()):
        refuse_processes()
    coef = fits.coefficients(fit)[0][0]
    counted = fit.get(coef.removesuffix("coef") + "status", fit[coef])
    if "shown" in file_format.writes:
        own["shown"] = [counted.name]
    done = 0
    with cluster_errors(), bar(visible=progress) as show:

        def count(block: xr.Dataset) -> None:
            nonlocal done
            done += block[counted.name].size if counted.name in block else 0
            if show is not None:
                show(done, counted.size)

        count(xr.Dataset())
        file_format.module.write(
            shared(fit),
            path,
            store=store,
            history=history_line(f"to_{name.lower()}", {}),
            on_block=count,
            **own,
        )
