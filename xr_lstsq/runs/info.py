"""What a fit in a file is: what was fitted, with what, and how its pixels went."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from dask.utils import format_bytes

from xr_lstsq import design, fits
from xr_lstsq.formats.regions import regions
from xr_lstsq.formats.table import to_read
from xr_lstsq.formats.windows import groups
from xr_lstsq.runs.source import read_errors

__all__ = ["FitInfo", "VariableInfo", "info_file"]


@dataclass(frozen=True)
class VariableInfo:
    """One variable that was fitted.

    Attributes
    ----------
    name : str
        The variable, or ``"the cube"`` where it had no name.
    terms : str
        Terms of the design as they are typed, or what stood in their place.
    samples : str
        Sample dim, with its first and last label where the fit knows them.
    sizes : dict of hashable to int
        Pixel dims and their sizes.
    params : dict of str to (str, str)
        Units and meaning of each param, "" where not known.
    arguments : dict of str to object
        What the fit was asked for, apart from what is not in use.
    version : str
        Version of the package that made it.
    statuses : dict of str to int
        Number of pixels of each status; those that no pixel has are in it with 0. Empty where the
        file has no status.
    """

    name: str
    terms: str
    samples: str
    sizes: dict[Hashable, int]
    params: dict[str, tuple[str, str]]
    arguments: dict[str, Any]
    version: str
    statuses: dict[str, int]

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines of the table, each in two parts."""
        dims = ", ".join(f"{dim} {size:,}" for dim, size in self.sizes.items())
        pixels = int(np.prod(list(self.sizes.values()), dtype=np.int64))
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        rows = [
            ("pixels", f"{pixels:,} ({dims})" if dims else f"{pixels:,}"),
            ("samples", self.samples),
            ("terms", self.terms),
            ("arguments", given),
            ("made by", f"xr_lstsq {self.version}"),
            ("params", f"{len(self.params)}"),
        ]
        rows += [
            (f"  {name}", "  ".join(part for part in (f"{unit:<10}", text) if part))
            for name, (unit, text) in self.params.items()
        ]
        total = max(1, sum(self.statuses.values()))
        rows.append(("status", "" if self.statuses else "not in the file"))
        rows += [
            (f"  {name}", f"{count:>12,} {count / total:>6.1%}")
            for name, count in self.statuses.items()
            if count
        ]
        return rows


@dataclass(frozen=True, repr=False)
class FitInfo:
    """What is in the file of a fit; `str` and `repr` are a table.

    Attributes
    ----------
    path : Path
        The file.
    variables : tuple of VariableInfo
        What was fitted.
    contents : tuple of str
        Variables of the file.
    disk_bytes, memory_bytes : int
        Size of the file, and of what it holds once it is read.
    history : str
        The ``history`` of the file, "" where it has none.
    """

    path: Path
    variables: tuple[VariableInfo, ...]
    contents: tuple[str, ...]
    disk_bytes: int
    memory_bytes: int
    history: str

    def __str__(self) -> str:
        """Return the table."""
        sizes = f"{format_bytes(self.disk_bytes)} on disk, {format_bytes(self.memory_bytes)} read"
        lines = [f"{self.path}: {sizes}", f"  {'contents':<16}{', '.join(self.contents)}"]
        lines += [f"  {'history':<16}{line}" for line in self.history.splitlines()]
        for one in self.variables:
            lines += ["", one.name, *(f"  {left:<15} {right}" for left, right in one.rows())]
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def info_file(path: str | os.PathLike[str]) -> FitInfo:
    """Say what a fit in a file is; statuses are counted piece by piece, so it may be of any size.

    Parameters
    ----------
    path : str or path-like
        File of a fit.

    Returns
    -------
    FitInfo
        What was fitted, with what, and the pixels of each status; `print` shows it as a table.

    Raises
    ------
    ValueError
        When the file holds no fit.
    FileNotFoundError, OSError
        A file that cannot be read.
    """
    with to_read(path).module.open(path) as fit, read_errors(path):
        try:
            found = fits.coefficients(fit)
        except ValueError as error:
            names = ", ".join(map(str, fit.data_vars)) or "none"
            msg = (
                f"'{path}' holds no fit: none of its variables ({names}) has the attribute "
                f"{fits.SPECIFICATION!r}. Name a file that `xr-lstsq solve` or to_netcdf wrote."
            )
            raise ValueError(msg) from error
        return FitInfo(
            path=Path(path),
            variables=tuple(_describe(fit, *one) for one in found),
            contents=tuple(map(str, fit.data_vars)),
            disk_bytes=_disk_bytes(Path(path)),
            memory_bytes=fit.nbytes,
            history=str(fit.attrs.get("history", "")),
        )


def _describe(fit: xr.Dataset, name: str, coef: xr.DataArray, spec: dict[str, Any]) -> VariableInfo:
    """Describe the fit of one variable by its specification."""
    dim = spec["param_dim"]
    labels = coef[dim].values.tolist() if dim in coef.coords else range(coef.sizes.get(dim, 1))
    labels = labels if isinstance(labels, list | range) else [labels]  # one param was selected
    known = dict(
        zip(
            spec["names"] or (),
            zip(
                spec["units"] or [""] * len(spec["names"] or ()),
                spec["long_names"] or [""] * len(spec["names"] or ()),
                strict=True,
            ),
            strict=True,
        )
    )
    span = f", {spec['span'][0]} to {spec['span'][1]}" if spec["span"] else ""
    given = {k: v for k, v in spec["arguments"].items() if v not in (None, [], False)}
    return VariableInfo(
        name=spec["variable"] or "the cube",
        terms=_terms(fit, spec["terms"]),
        samples=spec["dim"] + span,
        sizes={one: size for one, size in coef.sizes.items() if one != dim},
        params={str(label): known.get(label, ("", "")) for label in labels},
        arguments=given,
        version=spec["xr_lstsq"],
        statuses=_statuses(fit, name.removesuffix("coef") + "status"),
    )


def _terms(fit: xr.Dataset, terms: dict[str, Any]) -> str:
    """Return terms as they are typed."""
    if terms["term"] == "matrix":
        return "given as a matrix"
    kept = {str(name): variable for name, variable in fit.data_vars.items()}
    return repr(design.from_json(terms, kept))


def _statuses(fit: xr.Dataset, name: str) -> dict[str, int]:
    """Count the pixels of each status, piece by piece."""
    if name not in fit:
        return {}
    status = fit[name]
    meanings = str(status.attrs["flag_meanings"]).split()
    values = np.atleast_1d(status.attrs["flag_values"]).tolist()
    counts = dict.fromkeys(meanings, 0)
    for _, chunks in groups(fit, [name]):
        for region in regions(chunks):
            piece = status.variable.isel(region.window).to_numpy()
            for meaning, value in zip(meanings, values, strict=True):
                counts[meaning] += int(np.count_nonzero(piece == value))
    return counts


def _disk_bytes(path: Path) -> int:
    """Return the size of a file, or of all files of a store."""
    if path.is_dir():
        return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    return path.stat().st_size
