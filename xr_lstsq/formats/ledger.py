"""The record beside a store of what is finished in it, by which a run goes on where it stopped.

JSON lines. The first says of what run it is: a format number, the fingerprint and the history line.
Each of the others is one thing that is done and durable: ``{"done": "metadata"}``,
``{"done": [group, index...]}`` for a region, ``{"done": "all"}`` before the store gets its name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from xr_lstsq.errors import WriteError
from xr_lstsq.formats.directory import sync

try:
    import fcntl
except ImportError:  # Windows, where a second run into the same store goes unseen
    fcntl = None  # type: ignore[assignment]

__all__ = ["Done", "Ledger", "open_ledger"]

FORMAT = 1
# Differences that a message shows, and how much of a value.
SHOWN, LONGEST = 5, 60

Done = str | tuple[int, ...]
"""What a line says: a word, or the numbers of a region."""


class Ledger:
    """An open ledger, which no other run has open.

    Parameters
    ----------
    path : Path
        Where it is.
    file : FileIO
        The same, open, unbuffered and locked.

    Attributes
    ----------
    history : str or None
        Line for the attribute, with the clock time of the first start.
    done : set
        What its lines say.
    """

    def __init__(self, path: Path, file: FileIO) -> None:
        self.path = path
        self.history: str | None = None
        self.done: set[Done] = set()
        self.fingerprint: dict[str, Any] | None = None
        self._file = file

    def read(self) -> bool:
        """Read what an earlier run left; return whether there is anything.

        A last line that was cut off by a crash is not there.
        """
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        self._file.seek(len(whole))
        lines = whole.splitlines()
        if not lines:
            return False
        try:
            first, *others = map(json.loads, lines)
            known = first["format"] == FORMAT
            self.fingerprint, self.history = first["fingerprint"], first["history"]
            self.done = {d if isinstance(d := one["done"], str) else tuple(d) for one in others}
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            msg = f"'{self.path}' is not a ledger that this version reads, so nothing is resumed."
            raise WriteError(msg + " Leave out resume to start anew.")
        return True

    def start(self, fingerprint: Mapping[str, Any], history: str | None) -> None:
        """Begin anew: forget what was done, and say of what run this is."""
        self.fingerprint, self.history, self.done = dict(fingerprint), history, set()
        self._append([{"format": FORMAT, "fingerprint": self.fingerprint, "history": history}])
        sync(self.path.parent)

    def clear(self) -> None:
        """Empty the file, before what it describes is removed."""
        self._file.seek(0)
        self._file.truncate()
        os.fsync(self._file.fileno())

    def refuse_other(self, fingerprint: Mapping[str, Any]) -> None:
        """Raise a ValueError when the ledger is of a run with another fingerprint."""
        found = [
            f"{name} was {_short(before)} and is {_short(now)}"
            for name, before, now in _differences(self.fingerprint or {}, fingerprint)
        ]
        if found:
            more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            msg = (
                f"'{self.path}' is the ledger of a run with other arguments or inputs: "
                f"{'; '.join(found[:SHOWN])}{more}. Give what that run was given to go on with it, "
                "or leave out resume to start anew; what it has written is then removed."
            )
            raise ValueError(msg)

    def add(self, done: Iterable[Done]) -> None:
        """Record what is done and durable, one line each; the lines are durable on return."""
        done = list(done)
        self._append([{"done": one} for one in done])
        self.done.update(done)

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)
        sync(self.path.parent)

    def _append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        rest = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        while rest:
            rest = rest[self._file.write(rest) :]
        os.fsync(self._file.fileno())


@contextmanager
def open_ledger(path: Path) -> Iterator[Ledger]:
    """Open a ledger, or make an empty one, and lock it as long as it is open.

    Raises
    ------
    WriteError
        When another run has it open.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with FileIO(descriptor, "r+") as file:
            _lock(path, file)
            try:
                current = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except FileNotFoundError:
                current = False
            if current:
                yield Ledger(path, file)
                return
        # The run that had it removed it between the opening and the lock.


def _lock(path: Path, file: FileIO) -> None:
    """Lock a file against other processes; the system frees it when the process ends."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        msg = f"Another run is writing, and has '{path}' open. Wait for its end, or stop it first."
        raise WriteError(msg) from None
    except OSError:  # a file system without locks
        return


def _differences(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the names of what differs, dotted where it is inside, with both values."""
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{name}.")
        elif old != new or (name in before) != (name in now):
            yield prefix + name, old, new


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
