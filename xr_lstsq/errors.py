"""The errors of xr_lstsq: each says what was found, what is needed and what to type."""

from __future__ import annotations

__all__ = [
    "ChunkError",
    "DeviceError",
    "DtypeError",
    "LabelError",
    "ValidationError",
    "WriteError",
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
