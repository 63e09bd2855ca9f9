"""Terms that hold data along the samples: what they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import xarray as xr

from xr_lstsq.design import grammar
from xr_lstsq.design.binding import check_name
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.kept import KEPT, restore
from xr_lstsq.design.terms import Term
from xr_lstsq.errors import DtypeError, LabelError
from xr_lstsq.outputs import multiply_units

__all__ = ["DataTerm", "on_samples", "one_over", "source_or_data"]

SAME_LABEL = 0.05
"""Part of the smallest spacing by which numbers may differ and be one label, as elsewhere."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DataTerm(Term):
    """A term of data along the sample dim, given as a DataArray or by a coordinate's name.

    ``source`` is the name of the coordinate; ``data`` is None until the term is bound to it, and
    in a term read from a fit that does not keep its data, since they have ``pixel_dims``.
    """

    kinds: ClassVar[str] = "biuf"

    source: str | None = None
    data: xr.DataArray | None = None
    name: str | None = None
    pixel_dims: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the arguments, which may come from a file, and bring them to their one form."""
        check_name(self.name)
        source: object = self.source
        if source is not None and not isinstance(source, str):
            raise ValueError(f"{self.word} takes the name of a coordinate, not {source!r}.")
        object.__setattr__(self, "pixel_dims", tuple(map(str, self.pixel_dims)))
        if self.data is not None and self.data.dtype.kind not in self.kinds:
            raise DtypeError(
                f"{self.word} {self.label!r} holds {self.data.dtype}, and needs real numbers. "
                "Convert it to float."
            )

    @property
    def label(self) -> str:
        """The name of the data, with which the names of params begin."""
        if self.name is not None:
            return self.name
        own = self.source if self.data is None else self.data.name
        return "" if own is None else str(own)

    def __eq__(self, other: object) -> bool:
        """Say whether two terms say the same, data and all."""
        if type(other) is not type(self) or self.to_json() != other.to_json():
            return False
        mine, theirs = self.data, other.data
        return mine.equals(theirs) if mine is not None and theirs is not None else mine is theirs

    def __hash__(self) -> int:
        """Hash what equal terms have in common, without reading data."""
        return hash((self.word, self.label))

    def __repr__(self) -> str:
        """Write the term in the grammar; data stand by their sizes, which it cannot read back."""
        values = {key: getattr(self, key) for key in self.arguments if key != "source"}
        told = [(k, v) for k, v in values.items() if v not in (getattr(type(self), k), ())]
        if self.data is None and self.source is not None:
            return grammar.write(self.word, [self.source], told)
        told = [(key, value) for key, value in told if key != "name"]  # which stands before them
        sizes = {} if self.data is None else self.data.sizes
        shown = f"{self.label} ({', '.join(f'{dim}: {size}' for dim, size in sizes.items())})"
        return f"{self.word}({', '.join([f'<{shown}>', *(f'{k}={v}' for k, v in told)])})"

    def to_json(self) -> dict[str, Any]:
        """Return the term as plain JSON data; the data are a variable (see `Term.variables`)."""
        found = super().to_json()
        found = {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}
        if self.data is not None or self.pixel_dims:
            found["name"] = self.label
            found |= {"pixel_dims": list(self.pixel_dims)} if self.pixel_dims else {}
            found |= {} if self.pixel_dims else {"variable": self.variable}
        return found

    @property
    def variable(self) -> str:
        """Name of the variable of a fit that keeps the data."""
        return f"{KEPT}{self.label}"

    @property
    def variables(self) -> dict[str, xr.DataArray]:
        """Data that a fit keeps: none where they differ from pixel to pixel."""
        if self.data is None or self.pixel_dims:
            return {}
        return {self.variable: self.data.rename(self.variable)}

    @classmethod
    def from_object(cls, values: Mapping[str, Any], variables: Mapping[str, xr.DataArray]) -> Self:
        """Make the term from its JSON form and the variables of a fit; see `Term.from_object`."""
        own = dict(values)
        variable, pixel_dims = own.pop("variable", None), own.pop("pixel_dims", ())
        unknown = [key for key in own if key not in cls.arguments]
        if unknown:
            known = ", ".join(cls.arguments)
            raise ValueError(f"unknown argument {unknown[0]!r}; {cls.word!r} takes {known}.")
        if variable is not None:
            if variable not in variables:
                raise ValueError(
                    f"{cls.word!r} needs its data, the variable {variable!r} of the fit, which is "
                    "not there. Keep it with the fit."
                )
            own["data"] = restore(variables[variable]).rename(own.get("source") or own.get("name"))
        elif "source" not in own and not pixel_dims:
            raise ValueError(f"{cls.word!r} needs its argument 'source', the name of a coordinate.")
        return cls(**own, pixel_dims=tuple(pixel_dims))

    def map_data(self, function: Callable[[xr.DataArray, str], xr.DataArray]) -> Self:
        """Change the data by a function; see `Term.map_data`."""
        if self.data is None:
            return self
        return replace(self, data=function(self.data, f"{self.word} {self.label!r}"))

    def bind(self, coord: xr.DataArray) -> Self:
        """Take the data of a coordinate, and learn from the data; see `Term.bind`.

        Raises
        ------
        LabelError
            There is no such coordinate, or the data do not lie along the sample dim.
        """
        if self.pixel_dims and self.data is None:
            return self
        (dim,) = coord.dims
        data = self._read(coord) if self.data is None else self.data
        data = on_samples(data, coord, f"{self.word} {self.label!r}")
        pixel_dims = tuple(str(name) for name in data.dims if name != dim)
        bound = replace(self, data=data, pixel_dims=pixel_dims)
        if not bound.label:
            raise ValueError(
                f"{self.word} has no name for its params. Pass name=, or a DataArray with a name."
            )
        if bound.label in map(str, data.dims):
            raise ValueError(
                f"{self.word} {bound.label!r} is called like a dim of its data, and a fit cannot "
                "keep both. Pass name=."
            )
        if "/" in bound.label:
            raise ValueError(
                f"{self.word} {bound.label!r} has a slash in its name, which no file takes as that "
                "of a variable. Pass name=."
            )
        return bound.learn(dim)

    def _read(self, coord: xr.DataArray) -> xr.DataArray:
        """Return the coordinate along the sample dim that the term names."""
        (dim,) = coord.dims
        found = coord.coords.get(self.source) if self.source else None
        if found is None or found.dims != coord.dims:
            known = [str(name) for name, c in coord.coords.items() if c.dims == coord.dims]
            raise LabelError(
                f"{self.word} names {self.source!r}, and the coordinates along {dim!r} are "
                f"{known}. Attach it with cube.assign_coords({self.source}=({dim!r}, values))."
            )
        own = {dim: coord.coords[dim]} if dim in coord.coords and self.source != dim else {}
        return xr.DataArray(found.values, own, (dim,), name=self.source, attrs=found.attrs)

    def learn(self, dim: Any) -> Self:
        """Return the bound term with what later samples have to be treated alike by."""
        del dim
        return self

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make the columns; see `Term.evaluate`.

        Raises
        ------
        LabelError
            As `bind`.
        ValueError
            The term was read from a fit that does not keep its data.
        """
        bound = self.bind(coord)
        if bound.data is None:
            raise ValueError(
                f"{self.word} {self.label!r} differs along {self.pixel_dims}, and a fit does not "
                "keep it. Pass the rows of the design as a matrix."
            )
        return bound.columns(bound.data, coord.dims[0])

    @abstractmethod
    def columns(self, data: xr.DataArray, dim: Any) -> Columns:
        """Make the columns of a bound term from its data."""


def source_or_data(data: object) -> dict[str, Any]:
    """Return the argument of a term that its data stand for.

    Raises
    ------
    TypeError
        For anything but a DataArray or a text.
    """
    if isinstance(data, xr.DataArray):
        return {"data": data}
    if isinstance(data, str):
        return {"source": data}
    raise TypeError(
        f"data is a {type(data).__name__}. Pass a DataArray along the sample dim, or the name of a "
        "coordinate of the cube."
    )


def on_samples(data: xr.DataArray, coord: xr.DataArray, what: str) -> xr.DataArray:
    """Return data in the order of the samples.

    Raises
    ------
    LabelError
        They do not lie along the sample dim, or lack some of its labels.
    """
    (dim,) = coord.dims
    mine, theirs = _index(data, dim), _index(coord, dim)
    if mine is None or theirs is None or dim not in data.dims:
        if data.sizes.get(dim) != coord.size:
            raise LabelError(
                f"{what} has the sizes {dict(data.sizes)}, and there are {coord.size} samples "
                f"along {dim!r}. Pass one value a sample, along {dim!r}."
            )
        return data
    if mine.equals(theirs) or _same_numbers(mine, theirs):
        return data
    order = mine.get_indexer(theirs) if mine.is_unique else np.full(len(theirs), -1)
    absent = theirs[order < 0]
    if len(absent):
        raise LabelError(
            f"{what} has no value for {len(absent)} of the {coord.size} labels along {dim!r}, such "
            f"as {absent[0]}. Pass one value for each label, each label once."
        )
    return data.isel({dim: order})


def _index(data: xr.DataArray, dim: Any) -> pd.Index[Any] | None:
    """Return the labels of a dim, if it has some."""
    index = data.xindexes.get(dim)
    return None if index is None else index.to_pandas_index()


def _same_numbers(mine: pd.Index[Any], theirs: pd.Index[Any]) -> bool:
    """Say whether two indexes hold the same numbers in the same order, up to rounding."""
    kinds = {getattr(index.dtype, "kind", "O") for index in (mine, theirs)}
    if len(mine) != len(theirs) or len(mine) < 2 or not kinds <= set("iuf"):
        return False
    first, second = mine.to_numpy(np.float64), theirs.to_numpy(np.float64)
    spacings = np.diff(np.unique(second))
    return bool(spacings.size) and bool(np.abs(first - second).max() <= SAME_LABEL * spacings.min())


def one_over(units: str) -> str:
    """Return the UDUNITS text of one over some units: ``"m-1 s"`` of m/s, ``"K-1"`` of degC."""
    factor = multiply_units(units, "", -1, difference=True) if units else ""
    return "" if factor == "1" else factor
