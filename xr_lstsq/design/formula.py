"""Designs by formula, in the language of R: what formulaic makes of coordinates of the samples."""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import xarray as xr

from xr_lstsq.design import expressions, frames
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.registry import register
from xr_lstsq.design.terms import Term
from xr_lstsq.design.time import Polynomial, polynomial
from xr_lstsq.errors import LabelError

__all__ = ["Formula", "formula"]


@dataclass(frozen=True, eq=False)
class _Encoding:
    """What a formula has learnt from the samples it is bound to.

    Attributes
    ----------
    spec : formulaic.ModelSpec
        Its columns, with their categories, knots and means.
    columns : Columns
        What its columns are called, with a matrix of no rows.
    axes : dict of str to Polynomial
        Bound to the years and to each coordinate of numbers: they know its kind and its units.
    """

    spec: Any
    columns: Columns
    axes: dict[str, Polynomial]


@register("formula")
@dataclass(frozen=True, repr=False)
class Formula(Term):
    """Columns that formulaic makes of coordinates along the sample dim; made by `formula`."""

    arguments: ClassVar[tuple[str, ...]] = ("text",)
    in_text: ClassVar[bool] = False
    remade: ClassVar[bool] = False

    text: str
    names: tuple[str, ...] = field(default=(), compare=False)
    is_stored: bool = field(default=False, compare=False)
    encoding: _Encoding | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check the text, which may come from a file; it is not read any further."""
        text: object = self.text
        if not isinstance(text, str) or "~" not in text:
            raise ValueError(f"a formula is a text such as '~ 1 + years', not {text!r}.")
        left, _, right = text.partition("~")
        if left.strip():
            raise ValueError(
                f"the formula {text!r} has the left-hand side {left.strip()!r}, and what is fitted "
                f"is the cube. Write '~ {right.strip()}'."
            )
        object.__setattr__(self, "text", text.strip())

    def __repr__(self) -> str:
        """Return the text of the formula."""
        return self.text

    def to_json(self) -> dict[str, Any]:
        """Return the text and the names of the params, which evaluate nothing when read back."""
        return {"term": self.word, "text": self.text, "names": list(self.names)}

    @classmethod
    def from_object(cls, values: Mapping[str, Any], variables: Mapping[str, xr.DataArray]) -> Self:
        """Read the formula of a fit, whose text is never evaluated again."""
        del variables
        names = values.get("names")
        if set(values) != {"text", "names"} or not (
            isinstance(names, list) and all(isinstance(name, str) for name in names)
        ):
            raise ValueError(
                f"a formula in JSON has a 'text' and a list of 'names', not {dict(values)!r}."
            )
        return cls(values["text"], tuple(names), is_stored=True)

    def bind(self, coord: xr.DataArray) -> Formula:
        """Learn categories, knots and means from the samples; see `Term.bind`."""
        if self.encoding is not None:
            return self
        encoding = self._learn(coord)
        return replace(self, names=encoding.columns.names, encoding=encoding)

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make the columns, encoded as for the samples the term is bound to; see `Term.evaluate`.

        The row of a sample that lacks a coordinate of the formula is NaN.
        """
        encoding = self._learn(coord) if self.encoding is None else self.encoding
        offered = frames.offer(coord)
        factors = [factor for term in encoding.spec.formula for factor in term.factors]
        used = {n for factor in factors for n in expressions.names_of(factor, offered, self.text)}
        for name, axis in encoding.axes.items():
            try:
                axis.bind(offered[name])
            except ValueError as error:
                raise type(error)(f"{self} cannot use {name!r} here: {error}") from error
        table, there = frames.table(offered, used, len(coord))
        matrix = np.full((len(coord), len(encoding.columns.names)), np.nan)
        if there.any():
            rows = self._materialize(encoding.spec, table[there])
            matrix[there] = rows.to_numpy(np.float64)
        return replace(encoding.columns, matrix=matrix)

    def _learn(self, coord: xr.DataArray) -> _Encoding:
        """Encode the samples of a fit."""
        if self.is_stored:
            raise ValueError(
                f"the formula {self.text!r} was read from a fit, and no text that is read is "
                "evaluated: a fit by formula predicts with a design matrix only. Make it with "
                f"term = xr_lstsq.design.formula({self.text!r}).bind(cube.time), of the cube that "
                "was fitted, and pass term.evaluate(new.time).matrix."
            )
        terms, offered = expressions.read(self.text), frames.offer(coord)
        used = {
            factor.expr: expressions.names_of(factor, offered, self.text)
            for term in terms
            for factor in term.factors
        }
        table, there = frames.table(offered, set().union(*used.values()), len(coord))
        if not there.any():
            raise ValueError(f"{self} finds no sample at which all of {list(table)} are there.")
        matrix = self._materialize(terms, table[there])
        if not matrix.shape[1]:
            raise ValueError(f"{self} has no columns. Write at least one, as in '~ 1'.")
        if not np.isfinite(matrix.to_numpy(np.float64)).all(axis=1).any():
            raise ValueError(f"{self} is not finite at any sample, so that none could be fitted.")
        axes = {
            name: polynomial(1).bind(offered[name])
            for name, values in table.items()
            if values.dtype.kind in "iuf"
        }
        units = {name: _per(axes[name], offered[name]) if name in axes else "" for name in table}
        origins = {n: str(axis.origin) for n, axis in axes.items() if axis.calendar is not None}
        return _Encoding(matrix.model_spec, _describe(matrix, used, units, origins), axes)

    def _materialize(self, what: Any, table: Any) -> Any:
        """Return the matrix that formulaic makes of the terms of a formula, or of a model spec."""
        mismatch = expressions.load().errors.DataMismatchWarning
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", mismatch)
            try:
                # An empty context, so that no name of the caller is found
                return what.get_model_matrix(
                    table.reset_index(drop=True), context={}, na_action="ignore", output="pandas"
                )
            except mismatch as error:
                found = re.search(r"\{.*\}", str(error), re.DOTALL)
                values = re.sub(r"np\.\w+\((.*?)\)", r"\1", found[0] if found else "some")
                raise LabelError(
                    f"{self} meets categories without a column: {textwrap.shorten(values, 80)}. "
                    "Leave their samples out, or name all levels, as in C(x, levels=[...])."
                ) from error
            except Exception as error:
                # Whatever it is, it comes of evaluating what was typed
                raise ValueError(f"{self} cannot be evaluated. {error}") from error


def formula(text: str) -> Formula:
    r"""Make a design from a formula, as in ``"~ 1 + years + C(sensor)"``.

    Parameters
    ----------
    text : str
        Begins with ``~``, since what is fitted is the cube. Its names are the coordinates along
        the sample dim, which are numbers, truth values, or texts, which are categories; and
        ``years`` since 2000-01-01 in the cube's calendar, where the sample coordinate holds dates
        and none is called so. A name that is no Python name stands in backticks. There is an
        intercept, unless ``0 +`` takes it out.

    Returns
    -------
    Formula
        A `Term`. Its params are called as formulaic calls its columns, with ``_`` for what the
        name of a variable cannot have: C(sensor)[T.S2B] is ``C_sensor_T.S2B``.

    Raises
    ------
    ValueError
        A text that is no formula, or has a left-hand side.
    ImportError
        formulaic is not installed.

    Notes
    -----
    Functions are C, I, log, exp, center, scale, poly, bs, cr, cc and contrasts of formulaic, and
    those of numpy that work element by element, as in ``np.sin(2 * np.pi * years)``. Nothing else
    of Python is reached, and no variable of the program. Numbers are float64. What has to be
    learnt, such as levels, means and knots, is learnt from the samples that have all coordinates
    of the formula, and kept for other samples. Categories stand against their first level where
    all of them would be collinear; cr and cc are so with an intercept, unless they are centred
    with ``constraints="center"``. Rows without one of them, or that are not finite,
    are missing. A fit keeps the text, which is not evaluated again: it predicts with a matrix.

    References
    ----------
    Wilkinson, G. N. and Rogers, C. E. (1973): Symbolic description of factorial models for
    analysis of variance. Applied Statistics 22(3), doi:10.2307/2346786.

    Examples
    --------
    >>> sensor = ("time", ["A", "B", "A"])
    >>> dates = np.array(["2000-01-01", "2001-01-01", "2002-01-01"], "datetime64[ns]")
    >>> cube = xr.DataArray([1.0, 3.0, 2.0], {"time": dates, "sensor": sensor}, "time")
    >>> term = formula("~ 1 + years + C(sensor)").bind(cube.time)
    >>> term.names
    ('intercept', 'years', 'C_sensor_T.B')
    >>> term.evaluate(cube.time).matrix[:, 2]
    array([0., 1., 0.])
    """
    made = Formula(text)
    expressions.read(made.text)
    return made


def _per(axis: Polynomial, coord: xr.DataArray) -> str | None:
    """Return the units of a param that a coordinate of numbers is multiplied with, if known."""
    known = axis.unit or coord.attrs.get("units") == "1"
    return axis.evaluate(coord).units[1] if known else None


def _describe(
    matrix: Any,
    used: Mapping[str, set[str]],
    units: Mapping[str, str | None],
    origins: Mapping[str, str],
) -> Columns:
    """Return what the columns of a matrix are called and measured in, with no rows."""
    spec = matrix.model_spec
    rows: list[tuple[str, str | None, str, bool, str]] = []
    for term, _, columns in spec.structure:
        numeric = [
            factor.expr
            for factor in term.factors
            if spec.encoder_state.get(factor.expr, (None,))[0] is type(factor).Kind.NUMERICAL
        ]
        # A function of a coordinate has units of its own, which nothing tells
        own = [units.get(expr) for expr in numeric]
        per = None if None in own else " ".join(unit for unit in own if unit)
        # Of all categories one holds in each sample, and its coefficient is a value of the cube
        values = matrix[list(columns)].to_numpy(np.float64)
        is_level = not numeric and np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all()
        of_term = {name for factor in term.factors for name in used[factor.expr]}
        origin = "".join(sorted({origins[name] for name in of_term if name in origins}))
        for column in columns:
            # Whole numbers are floats here, as in C(orbit)[T.12.0]
            text = re.sub(r"(?<=[\[.])(-?\d+)\.0(?=\])", r"\1", column)
            name = re.sub(r"[^\w.-]+", "_", text).strip("_") or "column"
            name = "intercept" if text == "Intercept" else name
            while name in {row[0] for row in rows}:
                name += "_"
            rows.append((name, per, text, bool(is_level), origin))
    names, units_, long_names, levels, starts = zip(*rows, strict=True)
    return Columns(np.empty((0, len(rows))), names, units_, long_names, levels, starts)
