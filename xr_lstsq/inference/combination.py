"""Linear combinations of the params of a fit: given by factors, or ready-made."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

from xr_lstsq.design.coordinate import read_axis
from xr_lstsq.design.time import Polynomial
from xr_lstsq.inference.coordinates import as_coordinate
from xr_lstsq.inference.reading import Model
from xr_lstsq.outputs import multiply_units

__all__ = ["READY", "Combination", "read_combination"]


@dataclass(frozen=True)
class Combination:
    """A linear combination of params.

    Attributes
    ----------
    factors : dict
        Factor of each param, by its name.
    text : str
        What the combination is, without the variable.
    units : str or None
        Units of the estimate, where they can be known.
    """

    factors: dict[Any, float]
    text: str
    units: str | None


def read_combination(model: Model, combination: Mapping[Hashable, float] | str) -> Combination:
    """Read a combination of the params of a fit.

    Parameters
    ----------
    model : Model
        What was fitted.
    combination : mapping or str
        Factors by the names of the params, or a key of `READY`.

    Raises
    ------
    ValueError
        For params that the fit does not have, factors that are not finite numbers, and a
        ready-made combination that is not known or does not suit the design.
    """
    if isinstance(combination, str):
        return _ready(model, combination)
    return _given(model, combination)


def _given(model: Model, combination: Mapping[Hashable, float]) -> Combination:
    """Read factors of params by their names."""
    if not isinstance(combination, Mapping) or not combination:
        msg = (
            f"combination={combination!r} is neither a mapping of param name to factor, such as "
            f"{{'slope': 10}}, nor one of {', '.join(map(repr, READY))}."
        )
        raise ValueError(msg)
    unknown = [name for name in combination if name not in model.names]
    if unknown:
        msg = (
            f"combination has the params {unknown}, which the fit of {model.title} does not have. "
            f"It has {', '.join(map(repr, model.names))}."
        )
        raise ValueError(msg)
    wrong = [
        name
        for name, factor in combination.items()
        if isinstance(factor, bool) or not isinstance(factor, Real) or not math.isfinite(factor)
    ]
    if wrong:
        msg = f"combination has factors of {wrong} that are not finite numbers. Pass numbers."
        raise ValueError(msg)
    factors = {name: float(factor) for name, factor in combination.items()}
    return Combination(_without_zeros(factors), _formula(factors), _shared_units(model, factors))


def _shared_units(model: Model, factors: Mapping[Any, float]) -> str | None:
    """Return the units of a combination of params in the same units; None where they differ."""
    units = {model.units.get(name) for name in factors}
    own = units.pop()
    if own is None or units:
        return None
    differences = multiply_units(own, "", difference=True)
    total = math.fsum(factors.values())
    if own == differences or total == 1:
        return own
    # On a scale whose zero is a convention only means and differences are quantities.
    return differences if total == 0 else None


def _ready(model: Model, name: str) -> Combination:
    """Make the ready-made combination of a name from the polynomial of a fit.

    Powers of the times of the first and the last sample are kept as exact fractions: of an
    archive that begins long after the origin, their differences would lose digits.
    """
    if name not in READY:
        hint = f" Of the param write {{{name!r}: 1}}." if name in model.names else ""
        msg = (
            f"combination={name!r} is not known. Choose from {', '.join(map(repr, READY))}, or "
            f"pass a mapping of param name to factor, such as {{'slope': 10}}.{hint}"
        )
        raise ValueError(msg)
    word, least, factor = READY[name]
    terms = model.terms
    found = [] if terms is None else [t for t in terms.terms if isinstance(t, Polynomial)]
    if terms is None or len(found) != 1:
        what = "a matrix" if terms is None else f"{terms}, with {len(found)} polynomials"
        msg = (
            f"combination={name!r} is for a fit with one polynomial, and the design of "
            f"{model.title} is {what}. Pass a mapping of param name to factor."
        )
        raise ValueError(msg)
    polynomial = found[0]
    if polynomial.degree < least:
        msg = (
            f"combination={name!r} needs a polynomial of degree {least} or more, and "
            f"{polynomial} has the degree {polynomial.degree}. Fit polynomial({least})."
        )
        raise ValueError(msg)
    if model.spec["span"] is None:
        msg = f"combination={name!r} needs the dates of the samples, and the fit had none."
        raise ValueError(msg)
    coord = as_coordinate(list(model.spec["span"]), terms, str(model.spec["dim"]))
    model.refuse_joined()
    columns = polynomial.evaluate(coord)
    ticks, unit = polynomial.since_origin(read_axis(coord))
    first, last = (Fraction(tick or 0, unit) for tick in ticks)
    factors = {
        param: float(factor(power, first, last)) for power, param in enumerate(columns.names)
    }
    unknown = [param for param in factors if param not in model.names]
    if unknown:
        msg = (
            f"combination={name!r} needs the params {list(factors)}, and of these the fit of "
            f"{model.title} has not {unknown}. Call it on the fit before selecting params."
        )
        raise ValueError(msg)
    units = model.spec["attrs"].get("units")
    return Combination(
        _without_zeros(factors),
        f"{word} from {model.spec['span'][0]} to {model.spec['span'][1]}",
        None
        if units is None
        else multiply_units(str(units), columns.units[least] or "", difference=True),
    )


def _mean_rate(power: int, first: Fraction, last: Fraction) -> Fraction:
    """Return (last**power - first**power) / (last - first); the rate there where both are one."""
    parts = (first**k * last ** (power - 1 - k) for k in range(power))
    return sum(parts, Fraction(0))


def _acceleration(power: int, first: Fraction, last: Fraction) -> Fraction:
    """Return the same of the derivatives of time**power."""
    return power * _mean_rate(power - 1, first, last) if power else Fraction(0)


READY: dict[str, tuple[str, int, Callable[[int, Fraction, Fraction], Fraction]]] = {
    "mean_rate": ("mean rate of change", 1, _mean_rate),
    "acceleration": ("acceleration", 2, _acceleration),
}
"""What a ready-made combination is, the least degree it needs, and the factor of each power."""


def _without_zeros(factors: dict[Any, float]) -> dict[Any, float]:
    """Leave out params that do not count, unless none does."""
    return {name: factor for name, factor in factors.items() if factor} or factors


def _formula(factors: Mapping[Any, float]) -> str:
    """Write a combination, such as ``10 slope - 2 cos_1``."""
    text = " ".join(
        f"{'-' if factor < 0 else '+'} {name if abs(factor) == 1 else f'{abs(factor):g} {name}'}"
        for name, factor in factors.items()
    )
    return text.removeprefix("+ ")
