"""What a run tells while it goes: its pixels, its stages, and one record an event."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np
import xarray as xr

from xr_lstsq.runs.budget import peak_bytes

__all__ = ["Progress", "Teller", "history_line", "plain", "program"]

Teller = Callable[[dict[str, Any]], None]
"""Takes the record of an event: plain data with the keys said at `solve_file`."""


class Progress:
    """Counts the pixels of the blocks that are written, and tells of them.

    Parameters
    ----------
    progress : callable, optional
        Called with the numbers of pixels done and in all.
    tell : callable, optional
        Called with the record of each event.

    Attributes
    ----------
    stages : callable
        Returns the seconds of each stage up to now.
    """

    def __init__(
        self,
        progress: Callable[[int, int], None] | None,
        tell: Teller | None,
    ) -> None:
        self.progress, self.tell = progress, tell
        self.stages: Callable[[], dict[str, float]] = dict
        self.started = self.last = time.perf_counter()
        self.name: Any = None
        self.total = 0
        self.statuses: dict[str, int] = {}
        self.values: list[int] = []
        self.before: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Wall-clock time since the run began."""
        return time.perf_counter() - self.started

    def begin(self, status: xr.DataArray, **facts: Any) -> None:
        """Tell that the work begins, on the pixels of `status`."""
        self.name, self.total = status.name, status.size
        meanings = str(status.attrs["flag_meanings"]).split()
        self.values = np.atleast_1d(status.attrs["flag_values"]).tolist()
        self.statuses = dict.fromkeys(meanings, 0)
        self._record("start", pixels=self.total, **facts)
        self.last, self.before = time.perf_counter(), self.stages() if self.tell else {}
        if self.progress is not None:
            self.progress(0, self.total)

    def add(self, block: xr.Dataset) -> None:
        """Count a block that is written."""
        pixels = 0
        if self.name in block:
            found = block[self.name].to_numpy()
            pixels = found.size
            for meaning, value in zip(self.statuses, self.values, strict=True):
                self.statuses[meaning] += int(np.count_nonzero(found == value))
        done = sum(self.statuses.values())
        if self.progress is not None:
            self.progress(done, self.total)
        if self.tell is not None:
            now, stages = time.perf_counter(), self.stages()
            spent = {name: stages[name] - self.before.get(name, 0.0) for name in stages}
            self._record(
                "window",
                pixels=pixels,
                done=done,
                total=self.total,
                seconds=round(now - self.last, 6),
                stages={name: round(value, 6) for name, value in spent.items()},
            )
            self.last, self.before = now, stages

    def end(self, stages: Mapping[str, float]) -> None:
        """Tell that the file is complete, after so many seconds in each stage."""
        self._record(
            "end",
            pixels=self.total,
            statuses=self.statuses,
            seconds=round(self.seconds, 6),
            stages={name: round(value, 6) for name, value in stages.items()},
            peak_bytes=peak_bytes(),
        )

    def fail(self, error: BaseException) -> None:
        """Tell that the run ends without a file."""
        kind = {"KeyboardInterrupt": "Interrupted", "Terminated": "Terminated"}
        name = type(error).__name__
        message = kind.get(name, " ".join(str(error).split()))
        done = sum(self.statuses.values())
        self._record(
            "error", error=name, message=message, done=done, seconds=round(self.seconds, 6)
        )

    def _record(self, event: str, **values: Any) -> None:
        if self.tell is not None:
            stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
            self.tell({"event": event, "time": stamp, **values})


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run was asked for as plain data, with a word for what is not.

    Parameters
    ----------
    given : mapping of str to object
        Arguments; None and empty ones are left out.
    """
    words: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or (isinstance(value, Collection) and not len(value)):
            continue
        if isinstance(value, list | tuple):
            words[name] = [_plain(one) for one in value]
        elif isinstance(value, Mapping):
            words[name] = {str(key): _plain(one) for key, one in value.items()}
        else:
            words[name] = _plain(value)
    return words


def _plain(value: Any) -> Any:
    """Return a value that JSON knows (it has no NaN), or a word for it."""
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, str | int | float) or value is None:
        return value
    return repr(value) if hasattr(value, "to_json") else f"<{type(value).__name__}>"


def program() -> str:
    """Return the name and version of this package."""
    return f"xr_lstsq {metadata.version('xr_lstsq')}"


def history_line(action: str, given: Mapping[str, Any]) -> str:
    """Return the program, its version and what it was asked to do, in one line."""
    words = []
    for name, value in given.items():
        if value is None or (isinstance(value, Collection) and not len(value)):
            continue
        plain = isinstance(value, (str, int, float, list, tuple)) or hasattr(value, "to_json")
        words.append(f"{name}={value!r}" if plain else f"{name}=<{type(value).__name__}>")
    return " ".join([f"{program()}:", action, *words])
