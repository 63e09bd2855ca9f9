"""The file that is written: checked first, filled under another name, put in place when whole."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import xarray as xr

from xr_lstsq.errors import WriteError

__all__ = [
    "disk_errors",
    "partial_file",
    "partial_files",
    "reason",
    "refuse_sources",
    "refuse_type",
    "resolve",
    "sources_of",
]


def resolve(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of the target, of the file itself where it is a link.

    Raises
    ------
    WriteError
        When its directory is missing, or it is a directory.
    """
    target = Path(path).resolve()
    if not target.parent.is_dir():
        msg = f"'{target.parent}' is not a directory, so '{target.name}' cannot be written there."
        raise WriteError(msg + " Create it first, or give another target.")
    if target.is_dir():
        raise WriteError(f"'{target}' is a directory. Give the name of a file, such as fit.nc.")
    return target


def refuse_type(store: str | None) -> None:
    """Raise a ValueError for a type in which floats are not stored."""
    if store not in (None, "float32", "float64"):
        msg = f"store={store!r} is not a type of the file. Use 'float32', 'float64' or None."
        raise ValueError(msg)


def sources_of(dataset: xr.Dataset) -> list[str]:
    """Return the files that a Dataset says it was read from, by its encoding."""
    encodings = [dataset.encoding, *(one.encoding for one in dataset.variables.values())]
    named = {str(encoding["source"]) for encoding in encodings if "source" in encoding}
    return sorted(named.union(*(encoding.get("sources", ()) for encoding in encodings)))


def refuse_sources(target: Path, sources: Iterable[str | os.PathLike[str]]) -> None:
    """Raise a ValueError when the target is one of the files that are read, also through links."""
    for source in sources:
        same = Path(source).resolve() == target
        if not same and target.exists() and Path(source).exists():
            same = target.samefile(source)
        if same:
            msg = (
                f"'{target}' is the file that the data are read from, and would be overwritten. "
                "Write to another name."
            )
            raise ValueError(msg)


@contextmanager
def partial_file(target: Path) -> Iterator[Path]:
    """Give an empty file beside the target, which takes its place if all goes well.

    Whatever goes wrong inside, the file is removed and the target stays as it was.
    """
    with partial_files([target]) as partials:
        yield partials[0]


@contextmanager
def partial_files(targets: Sequence[Path]) -> Iterator[list[Path]]:
    """Give an empty file beside each target; all of them take their places if all goes well.

    Whatever goes wrong inside, the files are removed and the targets stay as they were.
    """
    partials: list[Path] = []
    try:
        for target in targets:
            partials.append(_hidden(target, "partial"))
            with disk_errors(target):
                # Made by os.open and not by tempfile, so that the mode follows the umask.
                os.close(os.open(partials[-1], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield partials
        for target, partial in zip(targets, partials, strict=True):
            with disk_errors(target), partial.open("rb+") as file:
                os.fsync(file.fileno())
        _put_in_place(targets, partials)
    except BaseException:
        for partial in partials:
            partial.unlink(missing_ok=True)
        raise


def _put_in_place(targets: Sequence[Path], partials: Sequence[Path]) -> None:
    """Rename all files or none.

    One rename is whole by itself. Of several, the old files step aside first: whenever the program
    ends, old and new ones never stand side by side.
    """
    aside = {t: _hidden(t, "old") for t in targets if len(targets) > 1 and t.exists()}
    try:
        for target, old in aside.items():
            with disk_errors(target):
                target.replace(old)
        for target, partial in zip(targets, partials, strict=True):
            with disk_errors(target):
                partial.replace(target)
    except BaseException:
        for target, partial in zip(targets, partials, strict=True):
            if not partial.exists() and len(targets) > 1:
                target.unlink(missing_ok=True)
        for target, old in aside.items():
            if old.exists():
                old.replace(target)
        raise
    for old in aside.values():
        with suppress(OSError):
            old.unlink()


def _hidden(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.{suffix}")


@contextmanager
def disk_errors(target: Path, left: str = "Nothing was kept of the file") -> Iterator[None]:
    """Turn the errors of a disk (which HDF5 reports as RuntimeError) into a WriteError.

    Parameters
    ----------
    target : Path
        What is written.
    left : str
        What is left of it when that fails, for the message.
    """
    try:
        yield
    except WriteError:
        raise
    except (OSError, RuntimeError) as error:
        folder = next(path for path in target.parents if path.is_dir())
        if folder != target.parent:
            left = "Nothing is left, since its directory is gone"
        free = shutil.disk_usage(folder).free
        msg = (
            f"Could not write '{target}' ({reason(error)}). The disk of '{folder}' has "
            f"{free / 1e9:.3g} GB ({free} bytes) free. {left}; check its space, your quota "
            "and the permissions, or write to another disk."
        )
        raise WriteError(msg) from error


def reason(error: BaseException) -> str:
    """Return the text of an error without its errno and path."""
    return str(getattr(error, "strerror", None) or error)
