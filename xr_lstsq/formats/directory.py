"""A directory to write: checked first, filled under another name, put in place when whole."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from xr_lstsq.errors import WriteError, warn

__all__ = ["Folder", "Gate", "put_in_place", "refuse_inside", "resolve_folder", "sync", "sync_tree"]


def resolve_folder(path: str | os.PathLike[str], marks: Iterable[str]) -> Path:
    """Return the absolute path of a directory to write, of the directory itself where it is a link.

    Parameters
    ----------
    path : str or path-like
        The target.
    marks : iterable of str
        Files of which one at least is in a directory that may be replaced.

    Raises
    ------
    WriteError
        When its parent is missing, or it is a file or a directory that holds something else.
    """
    target = Path(path).resolve()
    if not target.parent.is_dir():
        msg = f"'{target.parent}' is not a directory, so '{target.name}' cannot be written there."
        raise WriteError(msg + " Create it first, or give another target.")
    if target.exists() and not target.is_dir():
        msg = f"'{target}' is a file, and a store is a directory, which does not replace it."
        raise WriteError(msg + " Delete the file, or write to another name.")
    known = [mark for mark in marks if (target / mark).is_file()]
    if target.is_dir() and not known and any(target.iterdir()):
        msg = f"'{target}' is a directory that holds something else than a store."
        raise WriteError(msg + " It is left as it is; write to another name, such as fit.zarr.")
    return target


def refuse_inside(target: Path, sources: Iterable[str | os.PathLike[str]]) -> None:
    """Raise a ValueError when a file that is read is the target, in it, or holds it."""
    for source in sources:
        read = Path(source).resolve()
        if read == target or target in read.parents or (read in target.parents and read.exists()):
            where = "is" if read == target else "holds" if target in read.parents else "is inside"
            msg = f"'{target}' {where} the data that are read ('{source}'), and would be replaced."
            raise ValueError(msg + " Write to another name.")


class Folder:
    """A directory that is being filled, and must stay the same one meanwhile.

    Parameters
    ----------
    path : Path
        The directory; it exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity = self._look()

    def check(self) -> None:
        """Raise an OSError when the directory has been removed, or another put in its place.

        Writers create the directories that they need, so that what is written after that would be
        a part that looks like the whole.
        """
        if self._look() != self.identity:
            msg = (
                f"'{self.path}' was removed or replaced while it was written, or is not seen under "
                "this name by a worker of the cluster"
            )
            raise OSError(msg)

    def _look(self) -> int | None:
        # Other machines number the device of a shared file system in another way
        try:
            return self.path.stat().st_ino
        except FileNotFoundError:
            return None


class Gate:
    """Lets writers in until it is closed, so that none comes after the clean-up."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._inside = 0
        self._closed = False

    def __enter__(self) -> None:
        """Go in; raise an OSError where it is closed."""
        with self._state:
            if self._closed:
                msg = "writing has been stopped"
                raise OSError(msg)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        """Go out."""
        with self._state:
            self._inside -= 1
            self._state.notify_all()

    def close(self) -> None:
        """Let nobody in any more, and wait for those who are inside."""
        with self._state:
            self._closed = True
            self._state.wait_for(lambda: not self._inside)


def put_in_place(partial: Path, target: Path) -> None:
    """Rename a directory that is whole to its name; one that has this name makes way for it.

    A job that is killed between the two renames leaves both under hidden names, and no target.
    """
    if not target.exists():
        partial.rename(target)
        sync(target.parent)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.replaced")
    target.rename(old)
    try:
        partial.rename(target)
    except BaseException:
        old.rename(target)
        raise
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)
    if old.exists():
        warn(f"'{old}', which '{target}' has replaced, cannot be removed. Delete it.")


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, durable."""
    if path.is_dir():
        if os.name == "nt":  # has no such call for directories
            return
        flags = os.O_RDONLY
    else:
        flags = os.O_RDWR
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Make all that is in a directory durable, and its own name."""
    for folder, _, files in os.walk(root):
        for file in files:
            sync(Path(folder, file))
        sync(Path(folder))
    sync(root.parent)
