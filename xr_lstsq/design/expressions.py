"""The text of a formula: how it is read, and what of Python it may say.

What is typed in a formula is evaluated by formulaic as Python. So it is read here first, and only
arithmetic, comparisons, known names and calls of known functions go on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from types import ModuleType
from typing import Any

import numpy as np

from xr_lstsq.errors import LabelError

__all__ = ["FUNCTIONS", "load", "names_of", "read"]

FUNCTIONS = (
    *("C", "I", "bs", "cc", "center", "contr", "cr", "cs", "exp", "exp10", "exp2", "log", "log10"),
    *("log2", "poly", "scale", "standardize", "Diff", "Helmert", "Poly", "Sum", "Treatment"),
)
"""Functions of formulaic of which a row depends on its own sample, and on what was learnt from
those of the fit. Of the others, `lag` looks at other rows, and `Q` at names in texts."""
SYNTAX = (
    *(ast.Expression, ast.Name, ast.Load, ast.Attribute, ast.Call, ast.keyword, ast.Constant),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
    *(ast.BitAnd, ast.BitOr, ast.BitXor, ast.UnaryOp, ast.UAdd, ast.USub, ast.Invert),
    *(ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
    *(ast.List, ast.Tuple, ast.Dict),
)
BACKTICKS = re.compile(r"`([^`]*)`")


def load() -> ModuleType:
    """Import formulaic.

    Raises
    ------
    ImportError
        It is not installed.
    """
    try:
        import formulaic
    except ImportError as error:
        raise ImportError(
            'a formula needs formulaic. Install it with: pip install "xr_lstsq[formula]"'
        ) from error
    module: ModuleType = formulaic
    return module


def read(text: str) -> Any:
    """Read a formula into its terms, without evaluating anything.

    Parameters
    ----------
    text : str
        Begins with ``~``.

    Returns
    -------
    formulaic.SimpleFormula
        The terms.

    Raises
    ------
    ValueError
        The text is no formula, or has more than one part.
    """
    formulaic = load()
    try:
        terms = formulaic.Formula(text)
    except (formulaic.errors.FormulaicError, SyntaxError, IndexError) as error:
        # The lines below the first draw where in the text; "This can" goes on to its own functions
        reason = str(error).partition("\n")[0].partition(" This can")[0].strip()
        raise ValueError(f"the formula {text!r} cannot be read. {reason}".rstrip()) from error
    if not isinstance(terms, formulaic.SimpleFormula):
        raise ValueError(  # noqa: TRY004 (a wrong text, whatever formulaic makes of it)
            f"the formula {text!r} has several parts, and a design has one. Join them with '+'."
        )
    return terms


def names_of(factor: Any, known: Collection[str], text: str) -> set[str]:
    """Return the coordinates that a factor uses.

    Parameters
    ----------
    factor : formulaic Factor
        A part of a term that has one value a sample, such as ``C(sensor)``.
    known : collection of str
        Names of the coordinates there are.
    text : str
        The formula, for messages.

    Raises
    ------
    LabelError
        A name that is neither a coordinate nor one of `FUNCTIONS`.
    ValueError
        Python that no formula needs.
    """
    if factor.eval_method.value == "literal":
        return set()
    if factor.eval_method.value == "lookup":
        _check_name(factor.expr, known, text)
        return {factor.expr}
    quoted: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        return quoted.setdefault(match[1], f" _quoted_{len(quoted)} ")

    try:
        tree = ast.parse(BACKTICKS.sub(stand_in, factor.expr).strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{factor.expr!r} in the formula {text!r} is no expression.") from error
    names = {stand.strip(): name for name, stand in quoted.items()}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    holders = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    used = set(quoted)
    for node in ast.walk(tree):
        if not isinstance(node, SYNTAX) or not _is_harmless(node, known):
            raise ValueError(
                f"{ast.unparse(node)!r} in the formula {text!r} is not what a formula may say: "
                "arithmetic, comparisons, calls of known functions, and of numpy the functions "
                "that work element by element, as in np.sin(2 * np.pi * years)."
            )
        if not isinstance(node, ast.Name) or id(node) in holders:
            continue
        name = names.get(node.id, node.id)
        if id(node) in called and name not in FUNCTIONS:
            raise LabelError(
                f"{name!r} in the formula {text!r} is no function that a formula knows; those are "
                f"{', '.join(sorted(FUNCTIONS))}, and np.sin and the like."
            )
        if id(node) not in called and (name in known or name not in FUNCTIONS):
            used.add(name)
    for name in sorted(used):
        _check_name(name, known, text)
    plain = {re.sub(r"\W|^(?=\d)", "_", name) for name in used}
    if len(plain) < len(used):
        raise LabelError(
            f"the names {sorted(used)} in the formula {text!r} look the same without what is no "
            "letter or digit. Rename one with cube.rename."
        )
    return used


def _is_harmless(node: ast.AST, known: Collection[str]) -> bool:
    """Tell whether an attribute, or an argument by name, is one that a formula needs."""
    if isinstance(node, ast.keyword):
        return node.arg is not None and not node.arg.startswith("_")
    if not isinstance(node, ast.Attribute):
        return True
    if not isinstance(node.value, ast.Name) or node.value.id in known:
        return False
    if node.value.id == "contr":
        return not node.attr.startswith("_")
    found = getattr(np, node.attr, None) if node.value.id == "np" else None
    # Functions with a signature take other rows together, as a product of matrices does
    return isinstance(found, float) or (isinstance(found, np.ufunc) and found.signature is None)


def _check_name(name: str, known: Collection[str], text: str) -> None:
    if name not in known:
        raise LabelError(
            f"{name!r} in the formula {text!r} is no coordinate along the samples; those are "
            f"{', '.join(map(repr, known)) or 'none'}. Variables of the program are not seen: "
            f"assign it with cube.assign_coords({{{name!r}: (dim, values)}})."
        )
