"""The table of terms, and the reading of designs from text and from JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import xarray as xr

from xr_lstsq.design import grammar
from xr_lstsq.design.terms import Sum, Term

__all__ = ["TERMS", "from_json", "parse", "register"]

# Every term that the grammar and JSON know, by its word. `register` adds a row.
TERMS: dict[str, type[Term]] = {}

AnyTerm = TypeVar("AnyTerm", bound=type[Term])


def register(word: str) -> Callable[[AnyTerm], AnyTerm]:
    """Make a class of terms known to the grammar and to JSON.

    Parameters
    ----------
    word : str
        Name of the term there.

    Returns
    -------
    callable
        The class decorator.
    """

    def enter(term: AnyTerm) -> AnyTerm:
        term.word = word
        TERMS[word] = term
        return term

    return enter


def parse(text: str) -> Term:
    """Read a design from its text.

    Parameters
    ----------
    text : str
        Terms joined by ``+``. Arguments stand in order or by name. A value is a number, a word or
        a quoted string; dates need no quotes. A text that begins with ``~`` is a formula.

    Returns
    -------
    Term
        ``parse(str(term)) == term`` for every term.

    Raises
    ------
    ValueError
        A text that does not follow the grammar, an unknown term or argument, or a value that the
        term refuses; the place in the text is named.

    Examples
    --------
    >>> parse("polynomial(1, origin=2015-06-01)+harmonics(1,2)")
    polynomial(1, origin=2015-06-01) + harmonics(1, 2)
    """
    if text.lstrip().startswith("~"):
        from xr_lstsq.design.formula import formula  # which registers itself here

        return formula(text)
    terms = [_term(text, call) for call in grammar.read(text)]
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def _term(text: str, call: grammar.Call) -> Term:
    if call.word not in TERMS:
        raise grammar.problem(text, call.at, f"unknown term {call.word!r}; {_known_terms()}")
    if not TERMS[call.word].in_text:
        message = f"{call.word!r} holds what a text cannot; make it with xr_lstsq.design in Python"
        raise grammar.problem(text, call.at, message)
    known = TERMS[call.word].arguments
    values: dict[str, grammar.Value] = {}
    named = False
    for position, argument in enumerate(call.arguments):
        name = argument.name
        if name is None and named:
            message = "a value without a name stands after one with a name; give it its name"
            raise grammar.problem(text, argument.at, message)
        if name is None and position >= len(known):
            message = f"{call.word!r} takes at most {len(known)} arguments: {', '.join(known)}"
            raise grammar.problem(text, argument.at, message)
        named = name is not None
        name = known[position] if name is None else name
        if name not in known:
            message = f"unknown argument {name!r}; {call.word!r} takes {', '.join(known)}"
            raise grammar.problem(text, argument.at, message)
        if name in values:
            message = f"argument {name!r} of {call.word!r} is given twice"
            raise grammar.problem(text, argument.at, message)
        values[name] = argument.value
    try:
        return TERMS[call.word].from_object(values, {})
    except ValueError as error:
        raise grammar.problem(text, call.at, str(error)) from error


def from_json(data: Mapping[str, Any], variables: Mapping[str, xr.DataArray] | None = None) -> Term:
    """Read a design from JSON data, as `Term.to_json` gives them.

    Parameters
    ----------
    data : mapping
        Key ``"term"`` and one key an argument; a sum has its parts in the list ``"terms"``.
    variables : mapping of str to DataArray, optional
        What keeps the data of its terms, as `Term.variables` gives them.

    Returns
    -------
    Term
        Equal to the one that was written.

    Raises
    ------
    ValueError
        The data are not those of a term: no object, an unknown term or argument, or a value
        that the term refuses.
    """
    kept = {} if variables is None else variables
    _check_object(data)
    if data["term"] != "sum":
        return _from_object(data, kept)
    parts = data.get("terms")
    if not isinstance(parts, list) or set(data) != {"term", "terms"}:
        raise ValueError(f"a sum is written {{'term': 'sum', 'terms': [...]}}, not {data!r}.")
    for part in parts:
        _check_object(part)
    return Sum(tuple(_from_object(part, kept) for part in parts))


def _check_object(data: object) -> None:
    if not (isinstance(data, Mapping) and isinstance(data.get("term"), str)):
        raise ValueError(  # noqa: TRY004 (bad text in a file, not a bad type in a program)
            f"a term in JSON is an object with the name of the term under 'term', not {data!r}."
        )


def _from_object(data: Mapping[str, Any], variables: Mapping[str, xr.DataArray]) -> Term:
    word = data["term"]
    if word not in TERMS:
        raise ValueError(f"unknown term {word!r}; {_known_terms()}.")
    values = {key: value for key, value in data.items() if key != "term"}
    return TERMS[word].from_object(values, variables)


def _known_terms() -> str:
    return f"known terms are {', '.join(sorted(TERMS))}"
