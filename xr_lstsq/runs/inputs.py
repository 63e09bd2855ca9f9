"""What a run reads: the files, in whatever form they are given, and how they are opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray as xr
from dask.base import tokenize

from xr_lstsq.formats.table import Format, to_read
from xr_lstsq.runs.events import program

__all__ = ["Given", "Inputs", "fingerprint"]

Given = (
    str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, str | os.PathLike[str]]
)
"""A file, a pattern of files, several files, or a pattern for each variable."""


@dataclass(frozen=True)
class Inputs:
    """The files of a cube.

    Attributes
    ----------
    given : str, path-like, sequence or mapping
        As in `solve_file`.
    own : mapping of str to object
        Arguments that only some formats take: ``group``, ``band``.
    """

    given: Given
    own: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return what was given, in one line."""
        if isinstance(self.given, str | os.PathLike):
            return os.fspath(self.given)
        if isinstance(self.given, Mapping):
            return ", ".join(f"{name}={os.fspath(path)}" for name, path in self.given.items())
        first, *others = (os.fspath(one) for one in self.given)
        return first + (f" and {len(others)} more" if others else "")

    @classmethod
    def of(cls, given: Given, **own: Any) -> Inputs:
        """Return the files, with the arguments that are not None."""
        return cls(given, {name: value for name, value in own.items() if value is not None})

    @property
    def format(self) -> Format:
        """The format of the files.

        Raises
        ------
        ValueError
            For no files, an argument of another format, and files of several formats.
        """
        paths = [self.given] if isinstance(self.given, str | os.PathLike) else self.given
        listed = list(paths.values() if isinstance(paths, Mapping) else paths)
        if not listed:
            raise ValueError("No file was given. Name at least one.")
        formats = {to_read(path) for path in listed}
        if len(formats) > 1:
            names = " and ".join(sorted(one.name for one in formats))
            msg = f"The files are of several formats, {names}. Give files of one format."
            raise ValueError(msg)
        found = formats.pop()
        for name in self.own:
            if name not in found.reads:
                msg = f"{name}={self.own[name]!r} was given, and files of {found.name} have no "
                raise ValueError(msg + f"{name}. Leave it out.")
        return found

    def open(self, chunks: Mapping[Any, int] | None = None) -> xr.Dataset:
        """Open them lazily as one Dataset, see the ``open`` of the format."""
        one = self.format
        opened: xr.Dataset = one.module.open(self.given, chunks=chunks, **self.own)
        return opened

    def files(self) -> list[Path]:
        """Return the files that are read, the same ones all along."""
        return self._files

    @cached_property
    def _files(self) -> list[Path]:
        # Once, so that a worker knows which ones a pattern fits that are not there for it.
        found: list[Path] = self.format.module.files(self.given)
        return found

    def missing(self) -> list[Path]:
        """Return the files that are not there."""
        return [path for path in self.files() if not path.exists()]

    def identity(self) -> dict[str, Any]:
        """Return what tells these inputs from others: names, sizes and times of change.

        Of many files a digest, since only its being the same counts.
        """
        found = []
        for path in self.files():
            inside = path.rglob("*") if path.is_dir() else [path]
            for one in inside:
                state = one.stat()
                if not one.is_dir():
                    found.append((str(one.absolute()), state.st_size, state.st_mtime_ns))
        last = max((changed for _, _, changed in found), default=0)
        digest = hashlib.blake2b(repr(sorted(found)).encode(), digest_size=16)
        return {
            "source": str(self),
            **{name: _told(value) for name, value in self.own.items()},
            "files": len(found),
            "bytes": sum(size for _, size, _ in found),
            "last change": datetime.fromtimestamp(last / 1e9, UTC).isoformat(),
            "digest of names, sizes and times of change": digest.hexdigest(),
        }


def fingerprint(inputs: Inputs, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells a run from others, as plain data: its inputs, and what it was asked for.

    Parameters
    ----------
    inputs : Inputs
        The files.
    given : mapping of str to object
        Arguments by name.
    """
    return {
        "program": program(),
        "inputs": inputs.identity(),
        "arguments": {name: _told(value) for name, value in given.items()},
    }


def _told(value: Any) -> Any:
    """Return a value as JSON has it, or a digest in its place."""
    if value is None or isinstance(value, str | int):
        return value
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, list | tuple):
        return [_told(one) for one in value]
    return repr(value) if isinstance(value, float) else tokenize(value)
