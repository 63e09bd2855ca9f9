"""Which file holds which sample of a stack: from patterns of file names, or from a table."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["DATA", "FIELDS", "Listing", "expand", "find", "read_table"]

DATA = "data"
"""Name of the variable of a stack that gives none."""
FIELDS = {("time",): "time", ("reference", "secondary"): "pair"}
"""Sample dim of the fields that a pattern may have."""

_NAMES = tuple(name for fields in FIELDS for name in fields)
_FIELD = re.compile(r"\{(\w*)\}|\*")
_DATE = (
    r"\d{8}(?:T\d{6}Z?)?|"
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?)?"
)
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2}))?")
_FORMATS = "2020-01-31, 2020-01-31T10:11:12, 20200131 or 20200131T101112"
# Not on any disk that can be looked at from here; GDAL says whether they are there.
_REMOTE = re.compile(r"[a-z][a-z0-9+]+://|/vsi")


@dataclass(frozen=True, eq=False)
class Listing:
    """The files of a stack.

    Attributes
    ----------
    dim : str or None
        Sample dim: ``time``, ``pair``, or None where no name has a date.
    coords : dict of str to ndarray
        Coordinates along the sample dim.
    files : dict of str to list
        For each variable one path a sample, None where there is none.
    maps : dict of str to str
        Variables that are one file.
    bands : dict of str to list
        For each variable of `files` the band of each sample, where the table gives bands.
    """

    dim: str | None
    coords: dict[str, np.ndarray] = field(default_factory=dict)
    files: dict[str, list[str | None]] = field(default_factory=dict)
    maps: dict[str, str] = field(default_factory=dict)
    bands: dict[str, list[int]] = field(default_factory=dict)

    def paths(self) -> list[str]:
        """Return every file, each once."""
        listed = [path for paths in self.files.values() for path in paths if path is not None]
        return [*dict.fromkeys([*listed, *self.maps.values()])]


def find(patterns: Mapping[str, str]) -> Listing:
    """List the files whose names fit patterns, in the order of their dates.

    Parameters
    ----------
    patterns : mapping of str to str
        Pattern of each variable: a path with ``{time}``, with ``{reference}`` and
        ``{secondary}``, or with neither for one file. ``*`` stands for anything within a name.

    Raises
    ------
    FileNotFoundError
        When no file fits a pattern.
    ValueError
        For fields that are not known or differ between patterns, text that is no date, and two
        files of the same sample.
    """
    found: dict[str, dict[tuple[np.datetime64, ...], str]] = {}
    maps: dict[str, str] = {}
    fields: dict[str, tuple[str, ...]] = {}
    for name, pattern in patterns.items():
        own = _fields(pattern)
        if own:
            fields[name] = own
            found[name] = _dated(pattern, own)
        else:
            maps[name] = _only(pattern)
    if len(set(fields.values())) > 1:
        listed = "; ".join(f"{name}: {', '.join(own)}" for name, own in fields.items())
        msg = f"the patterns have different fields ({listed}), so their samples are not the same."
        raise ValueError(msg + " Use {time} in all of them, or {reference} and {secondary}.")
    if not fields:
        return Listing(None, maps=maps)
    own = next(iter(fields.values()))
    keys = sorted({key for files in found.values() for key in files})
    return Listing(
        FIELDS[own],
        {name: np.array([key[i] for key in keys]) for i, name in enumerate(own)},
        {name: [files.get(key) for key in keys] for name, files in found.items()},
        maps,
    )


def read_table(path: str | os.PathLike[str]) -> Listing:
    """List the files that a CSV table names, in the order of its rows.

    Parameters
    ----------
    path : str or path-like
        Table with ``time``, or ``reference`` and ``secondary``. A column that names files which
        are there (from the folder of the table) is a variable; the column ``path`` is the variable
        ``data``. ``band`` is the band of all files of a row. Other columns become coordinates:
        numbers where all are numbers, dates where all are dates, otherwise text.

    Raises
    ------
    FileNotFoundError
        When the table or a file in it is not there.
    ValueError
        For a table without dates or files.
    """
    file = Path(path)
    _refuse_absent([str(file)])
    # As text: "20200131" is a date and "007" a name.
    table = pd.read_csv(file, dtype=str, keep_default_na=False, skipinitialspace=True)
    columns = {str(name).strip(): [text.strip() for text in table[name]] for name in table}
    fields = next((own for own in FIELDS if {*own} <= {*columns}), None)
    if fields is None or not len(table):
        msg = f"'{file}' has the columns {', '.join(columns) or 'none'} and {len(table)} rows."
        need = "a row a sample is needed, with 'path' and 'time', or 'reference' and 'secondary'"
        raise ValueError(f"{msg} A table with {need}.")
    coords = {
        name: np.array([_date(text, f"'{file}', column {name!r}") for text in columns.pop(name)])
        for name in fields
    }
    files: dict[str, list[str | None]] = {}
    for name in list(columns):
        paths = [_beside(text, file) for text in columns[name]]
        if name == "path" or any(one and (_is_remote(one) or Path(one).is_file()) for one in paths):
            _refuse_absent(one for one in paths if one is not None)
            files[DATA if name == "path" else name] = paths
            del columns[name]
    if not files:
        msg = f"'{file}' names no file that is there: its other columns are {', '.join(columns)}."
        raise FileNotFoundError(f"{msg} Paths are looked for from '{file.resolve().parent}'.")
    bands = columns.pop("band", None)
    if bands is not None and not all(text.isdecimal() and int(text) for text in bands):
        raise ValueError(f"'{file}' has {bands!r} as 'band'. Bands are whole numbers from 1.")
    numbers = {} if bands is None else {name: [int(text) for text in bands] for name in files}
    coords |= {name: _values(texts) for name, texts in columns.items()}
    return Listing(FIELDS[fields], coords, files, bands=numbers)


def expand(name: str) -> list[str]:
    """Return the files that a file name, a pattern or a table stands for, itself included."""
    found = [name]
    with suppress(OSError, ValueError):
        if Path(name).suffix.lower() == ".csv":
            found += read_table(name).paths()
        elif _FIELD.search(name):
            found += _fitting(name)
    return found


def _refuse_absent(paths: Iterable[str]) -> None:
    """Raise a FileNotFoundError that names the files which are not there."""
    absent = [path for path in paths if not _is_remote(path) and not Path(path).exists()]
    if absent:
        more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
        msg = f"'{absent[0]}'{more} does not exist. Check the name; relative names are looked for"
        raise FileNotFoundError(f"{msg} from '{Path.cwd()}'.")


def _fields(pattern: str) -> tuple[str, ...]:
    """Return the fields of a pattern, in the order of `FIELDS`."""
    named = {match[1] for match in _FIELD.finditer(pattern) if match[0] != "*"}
    if not named:
        return ()
    for fields in FIELDS:
        if named == {*fields}:
            return fields
    msg = f"the pattern '{pattern}' has the fields {', '.join(sorted(named))}."
    raise ValueError(msg + " Use {time} for one date, {reference} and {secondary} for a pair.")


def _dated(pattern: str, fields: tuple[str, ...]) -> dict[tuple[np.datetime64, ...], str]:
    """Return the files that fit a pattern by their dates."""
    fitting = _fitting(pattern)
    regex = re.compile(_regex(pattern))
    found: dict[tuple[np.datetime64, ...], str] = {}
    for path in fitting:
        match = regex.fullmatch(_slashes(path))
        if match is None:
            continue
        key = tuple(_date(match[name], f"'{path}'") for name in fields)
        if key in found:
            dates = " and ".join(f"{name} {date:%Y-%m-%d}" for name, date in _days(fields, key))
            msg = f"'{found[key]}' and '{path}' are both the sample of {dates}."
            raise ValueError(msg + " Make the pattern fit one of them, or list files in a table.")
        found[key] = path
    if not found:
        example = f" (such as '{fitting[0]}')" if fitting else ""
        msg = (
            f"no file fits '{pattern}' from '{Path.cwd()}': {len(fitting)} fit without its dates"
            f"{example}. Dates are written {_FORMATS}."
        )
        raise FileNotFoundError(msg)
    return found


def _days(fields: tuple[str, ...], key: tuple[np.datetime64, ...]) -> list[tuple[str, Any]]:
    return [(name, pd.Timestamp(date)) for name, date in zip(fields, key, strict=True)]


def _only(pattern: str) -> str:
    """Return the one file of a pattern without dates."""
    if "*" not in pattern:
        _refuse_absent([pattern])
        return pattern
    fitting = _fitting(pattern)
    if len(fitting) != 1:
        msg = f"{len(fitting)} files fit '{pattern}', which has no date."
        kind = FileNotFoundError if not fitting else ValueError
        raise kind(msg + " Write {time}, or {reference} and {secondary}, where the dates stand.")
    return fitting[0]


def _fitting(pattern: str) -> list[str]:
    """Return the files that fit a pattern with anything in place of its fields, in order."""
    fixed = _FIELD.split(pattern)[::2]
    # Path.glob would need a folder apart from the pattern, and fields may stand in folders too.
    return sorted(glob.glob("*".join(map(glob.escape, fixed))))  # noqa: PTH207


def _regex(pattern: str) -> str:
    """Return the regular expression of a pattern, with a group a field."""
    pattern = _slashes(pattern)
    parts, seen, end, loose = [], set(), 0, False
    for match in _FIELD.finditer(pattern):
        text, name = pattern[end : match.start()], match[1]
        parts.append(re.escape(text))
        if match[0] == "*":
            parts.append("[^/]*")
        elif name in seen:
            parts.append(f"(?P={name})")
        else:
            seen.add(name)
            # Beside a * a date is all of the digits that stand there, not the first eight of them.
            before = r"(?<!\d)" if loose and not text else ""
            after = r"(?!T?\d)" if pattern[match.end() : match.end() + 1] == "*" else ""
            parts.append(f"{before}(?P<{name}>{_DATE}){after}")
        end, loose = match.end(), match[0] == "*"
    return "".join([*parts, re.escape(pattern[end:])])


def _slashes(path: str) -> str:
    return path.replace(os.sep, "/")


def _date(text: str, where: str) -> np.datetime64:
    """Read a date; `where` tells in an error what it was read from."""
    plain = text.removesuffix("Z").replace(" ", "T")
    if re.fullmatch(_DATE, text):
        parts = _COMPACT.fullmatch(plain)
        if parts is not None:
            day, clock = parts.groups()[:3], parts.groups()[3:]
            plain = "-".join(day) + ("T" + ":".join(clock) if clock[0] else "")
        with suppress(ValueError):
            return np.datetime64(plain, "ns")
    raise ValueError(f"{where} has {text!r}, which is no date. Write it {_FORMATS}, in UTC.")


def _beside(text: str, table: Path) -> str | None:
    """Return the path of a cell, from the folder of the table; None for an empty cell."""
    if not text:
        return None
    return text if _is_remote(text) else str(table.parent / text)


def _is_remote(path: str) -> bool:
    return _REMOTE.match(path) is not None


def _values(texts: list[str]) -> np.ndarray:
    """Return the cells of a column as numbers, dates or text."""
    readers: tuple[Callable[[str], Any], ...] = (
        int,
        lambda text: float(text or "nan"),
        lambda text: _date(text, ""),
    )
    for read in readers:
        with suppress(ValueError):
            return np.array([read(text) for text in texts])
    return np.array(texts)
