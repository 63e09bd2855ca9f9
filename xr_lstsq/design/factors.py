"""Factors: a column for each level of a label, such as the sensor of a sample."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import xarray as xr

from xr_lstsq.design.columns import Columns
from xr_lstsq.design.data import DataTerm, source_or_data
from xr_lstsq.design.registry import register
from xr_lstsq.errors import LabelError

__all__ = ["Indicator", "indicator"]


@register("indicator")
@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Indicator(DataTerm):
    """Levels of a factor; made by `indicator`. A bound one knows its ``levels``, as texts."""

    arguments: ClassVar[tuple[str, ...]] = ("source", "name", "reference", "levels")
    kinds: ClassVar[str] = "biufOUST"

    reference: str | None = None
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the arguments."""
        super().__post_init__()
        given: Any = self.levels
        levels = given.split(",") if isinstance(given, str) else given
        object.__setattr__(self, "levels", tuple(map(str, levels)))
        if self.reference is not None:
            object.__setattr__(self, "reference", str(self.reference))

    def learn(self, dim: Any) -> Self:
        """Take the levels of the data, unless there are some, and the one that has no column."""
        if self.data is None:
            return self
        if self.pixel_dims:
            raise LabelError(
                f"indicator {self.label!r} has the dims {self.data.dims}, and a factor lies along "
                f"{dim!r} alone. Make it a covariate for each level, as in (data == level)."
            )
        if self.levels:
            return self
        found = {text for text in _texts(self.data) if text is not None}
        levels = tuple(sorted(found, key=_order))
        reference = self.reference
        if len(levels) < 2:
            raise LabelError(
                f"indicator {self.label!r} has the levels {list(levels)}, and needs two or more to "
                "tell apart. Drop it."
            )
        if reference is None:
            reference = levels[0]
        if reference not in levels:
            raise LabelError(
                f"reference={reference!r} is no level of indicator {self.label!r}, which has "
                f"{list(levels)}. Choose one of these."
            )
        return replace(self, levels=levels, reference=reference)

    def columns(self, data: xr.DataArray, dim: Any) -> Columns:
        """Make the columns, (n, levels - 1)."""
        texts = _texts(data)
        strange = sorted({t for t in texts if t is not None and t not in self.levels})
        if strange:
            raise LabelError(
                f"indicator {self.label!r} has no column for {strange} along {dim!r}: it was "
                f"fitted with {list(self.levels)}. Leave these samples out."
            )
        own = [level for level in self.levels if level != self.reference]
        matrix = np.array(
            [[np.nan if text is None else float(text == level) for level in own] for text in texts]
        ).reshape(len(texts), len(own))
        return Columns(
            matrix=matrix,
            names=_names(self.label, own),
            units=("",) * len(own),
            long_names=tuple(f"{self.label} {one} against {self.reference}" for one in own),
            levels=(False,) * len(own),
            origins=("",) * len(own),
        )


def indicator(
    data: xr.DataArray | str, name: str | None = None, reference: object = None
) -> Indicator:
    """Make a factor: one column of 0 and 1 for each level but the reference.

    Parameters
    ----------
    data : DataArray or str
        Texts, whole numbers or flags along the sample dim, matched with the cube by labels; or the
        name of a coordinate along it.
    name : str, optional
        First part of the names of the params; that of the data when not given.
    reference : str or number, optional
        The level without a column, from which the others differ; the first of the sorted ones when
        not given. So the factor stands beside an intercept (treatment coding).

    Returns
    -------
    Indicator
        A `Term` with one param ``<name>_<level>`` for each other level.

    Raises
    ------
    LabelError
        Fewer than two levels, an unknown reference, or (predicting) a level without a column.

    Notes
    -----
    A sample without a level (NaN, None, an empty text) counts in no pixel.

    Examples
    --------
    >>> indicator("sensor", reference="S2A")
    indicator(sensor, reference=S2A)
    """
    level = None if reference is None else _text(reference)
    return Indicator(**source_or_data(data), name=name, reference=level)


def _texts(data: xr.DataArray) -> list[str | None]:
    """Return the level of each sample as a text; None where there is none."""
    return [_text(value) for value in data.values.tolist()]


def _text(value: object) -> str | None:
    """Return a level as a text; None where it is missing."""
    if value is None or pd.isna(value) or value in ("", "nan"):
        return None
    if isinstance(value, bytes):
        return value.decode()
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole and isinstance(value, float) else str(value)


def _order(text: str) -> tuple[int, float, str]:
    """Return by what levels are sorted: numbers by their size, before other texts."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _names(label: str, levels: list[str]) -> tuple[str, ...]:
    """Return the names of the params, of characters that variables can have."""
    names = [f"{label}_{re.sub('[^A-Za-z0-9_.-]+', '_', level)}" for level in levels]
    taken = set(names)
    found: list[str] = []
    for name in names:
        own, count = name, 1
        while own in found or (count > 1 and own in taken):
            count += 1
            own = f"{name}_{count}"
        found.append(own)
    return tuple(found)
