"""Errors and warnings of xr_lstsq: each says what was found, what is needed, what to type."""

from __future__ import annotations

import sys
import warnings

__all__ = [
    "ChunkError",
    "DeviceError",
    "DtypeError",
    "LabelError",
    "ValidationError",
    "WriteError",
    "warn",
]


class LabelError(ValueError):
    """Dims, coordinates or names do not fit together."""


class ChunkError(ValueError):
    """A dask array is cut in a way in which it cannot be solved."""


class DtypeError(ValueError, TypeError):
    """Values are of a kind that a real least-squares problem cannot hold."""


class DeviceError(RuntimeError):
    """The device does not exist, or not even one pixel fits into its memory."""


class ValidationError(RuntimeError):
    """A fit holds numbers that its cube does not give; the message is the table of differences."""


class WriteError(OSError):
    """A file could not be written; nothing half-written is left behind."""


def warn(message: str) -> None:
    """Warn at the line of the caller outside of this package, however deep the call."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]
