"""What a fit of a cube in a file will take, before anything is written."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from xr_lstsq import preview
from xr_lstsq.runs.inputs import Given, Inputs
from xr_lstsq.runs.source import open_cube, read_errors, refuse_processes, warn_of_storage

__all__ = ["explain_file"]


def explain_file(
    source: Given,
    design: Any,
    *,
    group: str | None = None,
    band: int | str | Mapping[str, int | str] | None = None,
    var: str | None = None,
    dim: Hashable | None = None,
    weights: str | None = None,
    valid: str | None = None,
    chunks: Mapping[str, int] | None = None,
    **options: Any,
) -> preview.Explanation:
    """Say what `solve_file` would do with a cube in a file, from a sample of its pixels.

    Parameters
    ----------
    source, design, group, band, var, dim, weights, valid, chunks, **options
        As in `solve_file`.

    Returns
    -------
    Explanation
        As of `xr_lstsq.explain`; `print` shows it as a table.

    Raises
    ------
    LabelError, ChunkError, DtypeError, DeviceError, ValueError
        An argument that does not fit, as in `solve_file`.
    FileNotFoundError, OSError
        A file that cannot be read.
    """
    refuse_processes()
    inputs = Inputs.of(source, group=group, band=band)
    with (
        open_cube(
            inputs,
            design,
            var=var,
            dim=dim,
            weights=weights,
            valid=valid,
            chunks=chunks,
            param_dim=options.get("param_dim", "param"),
        ) as found,
        read_errors(inputs),
    ):
        warn_of_storage(found, inputs)
        samples = found.samples()
        explanation = preview.explain(found.cube, design, found.dim, **options, **samples)
        assert isinstance(explanation, preview.Explanation)  # not of a Dataset
        return explanation
