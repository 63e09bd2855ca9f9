"""The table of terms, and the reading of designs from text and from JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

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
        a quoted string; dates need no quotes.

    Returns
    -------
    Term
        ``parse(str(term)) == term`` for every term.

    Raises
    ------
    ValueError
        A formula, a text that does not follow the grammar, an unknown term or argument, or a
        value that the term refuses; the place in the text is named.

    Examples
    --------
    >>> parse("polynomial(1, origin=2015-06-01)+harmonics(1,2)")
    polynomial(1, origin=2015-06-01) + harmonics(1, 2)
    """
    terms = [_term(text, call) for call in grammar.read(text)]
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def _term(text: str, call: grammar.Call) -> Term:
    if call.word not in TERMS:
        raise grammar.problem(text, call.at, f"unknown term {call.word!r}; {_known_terms()}")
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
        return _make(call.word, values)
    except ValueError as error:
        raise grammar.problem(text, call.at, str(error)) from error


def from_json(data: Mapping[str, Any]) -> Term:
    """Read a design from JSON data, as `Term.to_json` gives them.

    Parameters
    ----------
    data : mapping
        Key ``"term"`` and one key an argument; a sum has its parts in the list ``"terms"``.

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
    _check_object(data)
    if data["term"] != "sum":
        return _from_object(data)
    parts = data.get("terms")
    if not isinstance(parts, list) or set(data) != {"term", "terms"}:
        raise ValueError(f"a sum is written {{'term': 'sum', 'terms': [...]}}, not {data!r}.")
    for part in parts:
        _check_object(part)
    return Sum(tuple(_from_object(part) for part in parts))


def _check_object(data: object) -> None:
    if not (isinstance(data, Mapping) and isinstance(data.get("term"), str)):
        raise ValueError(  # noqa: TRY004 (bad text in a file, not a bad type in a program)
            f"a term in JSON is an object with the name of the term under 'term', not {data!r}."
        )


def _from_object(data: Mapping[str, Any]) -> Term:
    word = data["term"]
    if word not in TERMS:
        raise ValueError(f"unknown term {word!r}; {_known_terms()}.")
    known = TERMS[word].arguments
    unknown = [key for key in data if key != "term" and key not in known]
    if unknown:
        raise ValueError(f"unknown argument {unknown[0]!r}; {word!r} takes {', '.join(known)}.")
    return _make(word, {key: value for key, value in data.items() if key != "term"})


def _make(word: str, values: Mapping[str, Any]) -> Term:
    needed = [field.name for field in fields(TERMS[word]) if field.default is MISSING]
    absent = [name for name in needed if name not in values]
    if absent:
        raise ValueError(f"{word!r} needs its argument {absent[0]!r}.")
    return TERMS[word](**values)


def _known_terms() -> str:
    return f"known terms are {', '.join(sorted(TERMS))}"
