"""The text form of a design: ``polynomial(1) + harmonics(1, 2, unit=year)``.

The text is cut into tokens and read by hand; nothing in it is ever evaluated as Python. ::

    design   = call { "+" call }
    call     = word "(" [ argument { "," argument } ] ")"
    argument = [ word "=" ] value
    value    = number | word | quoted string

A word is any run of characters but white space, quotes and ``, ( ) + = ~``, so dates need no
quotes. A double-quoted string has the escapes of JSON, a single-quoted one has none. This module
knows the text only; which terms there are, and what their arguments mean, is known to
`xr_lstsq.design.registry`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Argument", "Call", "Value", "problem", "read", "write"]

TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?=[\s,()=]|$))
      | (?P<string>"(?:[^"\\]|\\.)*"|'[^']*')
      | (?P<mark>[(),=+])
      | (?P<word>[^\s,()+="'~]+)
      | (?P<end>$)
    )""",
    re.VERBOSE,
)

Value = str | int | float


@dataclass(frozen=True)
class Argument:
    """One argument of a call: its name (None if positional), value, and index in the text."""

    name: str | None
    value: Value
    at: int


@dataclass(frozen=True)
class Call:
    """One term as it stands in the text: its word, arguments, and index in the text."""

    word: str
    arguments: tuple[Argument, ...]
    at: int


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


def problem(text: str, at: int, message: str) -> ValueError:
    """Make the error that points at a place in a design text.

    Parameters
    ----------
    text : str
        The whole design.
    at : int
        Index of the offending character, from 0.
    message : str
        What was found and what is needed.

    Returns
    -------
    ValueError
        To be raised by the caller.
    """
    return ValueError(f"{message.rstrip('.')} (character {at + 1} of the design {text!r}).")


def read(text: str) -> tuple[Call, ...]:
    """Read a design text into its calls.

    Parameters
    ----------
    text : str
        For example ``polynomial(1) + harmonics(1, 2)``.

    Returns
    -------
    tuple of Call
        One or more calls in the order of the text.

    Raises
    ------
    ValueError
        Text that is empty or does not follow the grammar.
    """
    if not text.strip():
        raise ValueError(
            "the design is an empty text. Write terms, such as 'polynomial(1)+harmonics(1,2)'."
        )
    return _Reader(text).design()


class _Reader:
    """Recursive descent over the tokens of one text, one method a rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.next = 0

    def take(self) -> _Token:
        token = self.tokens[self.next]
        self.next = min(self.next + 1, len(self.tokens) - 1)
        return token

    def peek(self, ahead: int = 0) -> str:
        """Return the mark that comes next, or the kind of token if it is no mark."""
        token = self.tokens[min(self.next + ahead, len(self.tokens) - 1)]
        return token.text if token.kind == "mark" else token.kind

    def expect(self, mark: str, after: str) -> None:
        token = self.take()
        if token.kind != "mark" or token.text != mark:
            raise problem(
                self.text, token.at, f"found {token} where {mark!r} is needed after {after}"
            )

    def design(self) -> tuple[Call, ...]:
        calls = [self.call()]
        while self.peek() == "+":
            self.take()
            calls.append(self.call())
        token = self.take()
        if token.kind != "end":
            raise problem(
                self.text, token.at, f"found {token} after a term, where '+' or the end is needed"
            )
        return tuple(calls)

    def call(self) -> Call:
        token = self.take()
        if token.kind != "word":
            raise problem(
                self.text, token.at, f"found {token} where a term such as polynomial(1) is needed"
            )
        self.expect("(", f"the term name {token.text!r}")
        arguments: list[Argument] = []
        if self.peek() != ")":
            arguments.append(self.argument())
            while self.peek() == ",":
                self.take()
                arguments.append(self.argument())
        self.expect(")", f"the arguments of {token.text!r}")
        return Call(token.text, tuple(arguments), token.at)

    def argument(self) -> Argument:
        at = self.tokens[self.next].at
        name = None
        if self.peek() == "word" and self.peek(1) == "=":
            name = self.take().text
            self.take()
        return Argument(name, self.value(), at)

    def value(self) -> Value:
        token = self.take()
        if token.kind not in ("number", "word", "string"):
            raise problem(self.text, token.at, f"found {token} where a value is needed")
        try:
            return _value(token)
        except ValueError as error:
            raise problem(self.text, token.at, f"cannot read {token}: {error}") from None


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        match = TOKEN.match(text, at)
        if match is None:
            at = len(text) - len(text[at:].lstrip())
            found = text[at]
            if found in "\"'":
                raise problem(text, at, f"the quote {found} is never closed")
            raise problem(text, at, f"the character {found!r} has no meaning here")
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return tokens


def _value(token: _Token) -> Value:
    if token.kind == "number":
        digits = token.text.lstrip("+-")
        return int(token.text) if digits.isdigit() else float(token.text)
    if token.text.startswith("'"):
        return token.text[1:-1]
    if token.kind == "string":
        return str(json.loads(token.text))
    return token.text


def write(word: str, positional: Iterable[Value], named: Iterable[tuple[str, Value]]) -> str:
    """Write one call, so that `read` gives the same word and values back.

    Parameters
    ----------
    word : str
        Name of the term.
    positional : iterable of str, int or float
        Values without a name; floats are finite.
    named : iterable of (str, value)
        Values with their names, which are words.

    Returns
    -------
    str
        For example ``polynomial(1, unit=day)``.
    """
    values = [_write_value(value) for value in positional]
    values += [f"{name}={_write_value(value)}" for name, value in named]
    return f"{word}({', '.join(values)})"


def _write_value(value: Value) -> str:
    if not isinstance(value, str):
        return repr(value)
    match = TOKEN.fullmatch(value)
    is_bare = match is not None and match.lastgroup == "word" and match["word"] == value
    return value if is_bare else json.dumps(value)
