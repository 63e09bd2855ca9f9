"""What a fit consists of: one `Output` record a result variable, and the rule of its units."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

__all__ = [
    "ALWAYS",
    "AXES",
    "BOUNDS",
    "DEFAULT",
    "OUTPUTS",
    "STATS",
    "STATUS",
    "Output",
    "axis_lengths",
    "dtype_of",
    "multiply_units",
    "own_axes",
    "select",
    "variable_attrs",
]

Shape = Literal["param", "bound", "matrix", "pixel", "sample"]

AXES: dict[Shape, tuple[str, ...]] = {
    "param": ("param",),
    "bound": ("param", "bound"),
    "matrix": ("param", "param_2"),
    "pixel": (),
    "sample": ("sample",),
}
"""Axes of each shape before the pixel dims; ``sample`` takes its place among them at the end."""
BOUNDS = ("lower", "upper")
"""Labels along ``bound``."""

STATUS: dict[str, int] = {
    "solved": 0,
    "no_data": 1,
    "too_few_obs": 2,
    "rank_deficient": 3,
    "not_converged": 4,
    "failed": 5,
}
"""Meaning and value of a pixel's status: CF ``flag_meanings`` and ``flag_values``."""

STATUS_LONG_NAME = (
    "how the pixel was solved (at rank_deficient the minimum-norm coefficients are kept, "
    "unless deficient='nan' was asked for)"
)


@dataclass(frozen=True)
class Output:
    """One variable of a fit.

    Attributes
    ----------
    name : str
        Name of the variable, without the prefix of a Dataset fit.
    shape : {"param", "bound", "matrix", "pixel", "sample"}
        ``param``: (p, *pixel dims). ``bound``: (p, 2, *pixel dims). ``matrix``: (p, p, *pixel
        dims). ``pixel``: the pixel dims. ``sample``: the cube's own dims.
    kind : {"float", "int32", "int8"}
        ``float`` takes the dtype of the answer.
    long_name : str
        CF long_name; ``{name}`` stands for the name of the fitted variable.
    power : int, optional
        Power of the cube's units in which the variable stands; 0 for pure numbers; None where no
        one unit is right.
    difference : bool
        True where the variable measures differences of the cube's values, so that a scale with an
        offset (degC) becomes the scale without (K).
    is_data : bool
        True for variables that are values of the fitted variable itself and keep its attributes.
    """

    name: str
    shape: Shape
    kind: Literal["float", "int32", "int8"]
    long_name: str
    power: int | None = 0
    difference: bool = False
    is_data: bool = False


OUTPUTS: dict[str, Output] = {
    row.name: row
    for row in (
        Output("coef", "param", "float", "coefficients of {name}", power=1),
        Output("nobs", "pixel", "int32", "number of samples of {name} that count"),
        Output("rank", "pixel", "int32", "rank of the design on the samples that count"),
        Output("status", "pixel", "int8", STATUS_LONG_NAME),
        Output("dof", "pixel", "int32", "degrees of freedom, nobs - rank"),
        Output("rss", "pixel", "float", "weighted sum of squared residuals", 2, True),
        Output("rmse", "pixel", "float", "root of rss over nobs", 1, True),
        Output("resid_std", "pixel", "float", "root of rss over dof", 1, True),
        Output("rsquared", "pixel", "float", "coefficient of determination of {name}"),
        Output("rsquared_adj", "pixel", "float", "adjusted coefficient of determination of {name}"),
        Output("stderr", "param", "float", "standard errors of coefficients of {name}", 1, True),
        Output("tvalue", "param", "float", "coefficients over standard errors"),
        Output("pvalue", "param", "float", "two-sided p-values of coefficients of {name}"),
        Output("conf_int", "bound", "float", "confidence intervals of coefficients of {name}", 1),
        Output("cov", "matrix", "float", "covariance of coefficients of {name}", None),
        Output("cond", "pixel", "float", "condition of the weighted rows with unit-norm columns"),
        Output("leverage", "sample", "float", "leverage of samples of {name}"),
        Output("residual", "sample", "float", "{name} minus its fit", 1, True, True),
        Output("fitted", "sample", "float", "fit of {name}", 1, False, True),
        Output("fvalue", "pixel", "float", "F of all params but the constant"),
        Output("f_pvalue", "pixel", "float", "p-values of fvalue"),
        Output("aic", "pixel", "float", "Akaike information criterion"),
        Output("bic", "pixel", "float", "Bayesian information criterion"),
        Output("loglik", "pixel", "float", "logarithm of the likelihood"),
        Output("temporal_coherence", "pixel", "float", "temporal coherence of {name}"),
        Output("rho", "pixel", "float", "autocorrelation of residuals one step of time apart"),
        Output("n_eff", "pixel", "float", "effective number of samples of {name}"),
    )
}
"""Every variable that a fit can hold. A new statistic is one row here and one function."""

ALWAYS = ("coef", "nobs", "rank", "status")
AUTOCORRELATION = ("rho", "n_eff")
"""There whenever the autocorrelation of residuals is estimated, and only then."""
STATS = tuple(name for name in OUTPUTS if name not in (*ALWAYS, *AUTOCORRELATION))
DEFAULT = ("dof", "resid_std", "stderr", "rsquared")
"""What ``stats="default"`` stands for: what a map needs to be published."""
NOT_ASKED_FOR = {
    **dict.fromkeys(ALWAYS, "always there, need not be asked for"),
    **dict.fromkeys(AUTOCORRELATION, "comes with cov_type='ar1' or noise='ar1'"),
}
REAL_DOF = replace(OUTPUTS["dof"], kind="float", long_name="degrees of freedom, n_eff - rank")


def select(
    stats: str | Iterable[str], *, autocorrelated: bool = False, real_dof: bool = False
) -> tuple[Output, ...]:
    """Return the variables of a fit: those always there, then those asked for.

    Parameters
    ----------
    stats : str or iterable of str
        Names out of `STATS`; one name may be given as it is. Repeats count once. ``"default"``
        stands for `DEFAULT`.
    autocorrelated : bool
        Whether the autocorrelation of residuals is estimated.
    real_dof : bool
        Whether degrees of freedom are real numbers.

    Raises
    ------
    ValueError
        For a name that is not known; the known ones are listed.
    """
    asked = (stats,) if isinstance(stats, str) else tuple(stats)
    names = [one for name in asked for one in (DEFAULT if name == "default" else (name,))]
    given = AUTOCORRELATION if autocorrelated else ()
    unknown = [name for name in names if name not in (*STATS, *given)]
    if unknown:
        hints = [f"{name}: {NOT_ASKED_FOR[name]}" for name in unknown if name in NOT_ASKED_FOR]
        hint = f" ({'; '.join(hints)})" if hints else ""
        msg = (
            f"stats has {unknown!r}, which are not known{hint}. "
            f"Choose from {', '.join(STATS)}, or 'default' for {', '.join(DEFAULT)}."
        )
        raise ValueError(msg)
    table = OUTPUTS | ({"dof": REAL_DOF} if real_dof else {})
    wanted = {*ALWAYS, *names, *given}
    return tuple(row for name, row in table.items() if name in wanted)


def own_axes(rows: Iterable[Output], param_dim: str) -> dict[str, str]:
    """Return the dims of variables that a cube does not have, by the names of their axes.

    Parameters
    ----------
    rows : iterable of Output
        The variables.
    param_dim : str
        Name of the dim of the params.
    """
    names = {"param": param_dim, "param_2": f"{param_dim}_2", "bound": "bound"}
    used = {axis for row in rows for axis in AXES[row.shape] if axis in names}
    return {axis: name for axis, name in names.items() if axis in used}


def axis_lengths(n: int, p: int) -> dict[str, int]:
    """Return the length of each axis of `AXES`, for n samples and p params."""
    return {"param": p, "param_2": p, "bound": len(BOUNDS), "sample": n}


def dtype_of(output: Output, dtype: str) -> np.dtype[Any]:
    """Return the dtype of a variable in a fit whose answer has `dtype`."""
    return np.dtype(dtype if output.kind == "float" else output.kind)


# Scales whose zero is a convention: a difference of two such values stands in another unit.
_OFFSET_SCALES = {
    **dict.fromkeys(("degC", "degree_C", "degrees_C", "celsius", "Celsius", "°C", "deg_C"), "K"),
    **dict.fromkeys(("degree_Celsius", "degrees_Celsius", "degree_celsius"), "K"),
    **dict.fromkeys(("degF", "degree_F", "fahrenheit", "Fahrenheit"), "degR"),
}
_YEAR = {"yr": "year", "years": "year", "a": "year"}
_FACTOR = re.compile(r"^(?P<unit>[^\d\s^*/.()-]+)(?:\^|\*\*)?(?P<power>[+-]?\d+)?$")


def multiply_units(units: str, factor: str, power: int = 1, *, difference: bool) -> str:
    """Return ``units**power * factor`` in UDUNITS form, such as ``"mm year-1"``.

    Parameters
    ----------
    units : str
        Units of the cube. ``mm/yr``, ``mm yr^-1`` and ``mm year-1`` are all read.
    factor : str
        UDUNITS factor, such as ``"year-1"``, or ``""``.
    power : int
        Power to which `units` are raised.
    difference : bool
        True when the result measures a difference of two values of the cube: degC becomes K.

    Notes
    -----
    Units that cannot be read as a product of powers are kept in brackets: ``(log10(m)) year-1``.
    """
    units, factor = units.strip(), factor.strip()
    if difference or factor:
        units = _OFFSET_SCALES.get(units, units)
    if power == 1 and not factor and "/" not in units:
        return units
    powers, more = _powers(units), _powers(factor)
    if powers is None or more is None:
        head = units if powers is not None else f"({units})"
        return f"{head}{'' if power == 1 else power} {factor}".strip()
    total = {name: exponent * power for name, exponent in powers.items()}
    for name, exponent in more.items():
        total[name] = total.get(name, 0) + exponent
    words = [
        name if exponent == 1 else f"{name}{exponent}"
        for name, exponent in total.items()
        if exponent
    ]
    return " ".join(words) or "1"


def _powers(units: str) -> dict[str, int] | None:
    """Read a product of units as exponents; None where it is something else."""
    powers: dict[str, int] = {}
    sign = 1
    for part in re.sub(r"\s*([/*])\s*", r" \1 ", re.sub(r"\*\*", "^", units)).split():
        if part == "/":
            sign = -1
            continue
        if part in {"*", "1", "."}:
            continue
        match = _FACTOR.match(part)
        if match is None:
            return None
        name = _YEAR.get(match["unit"], match["unit"])
        powers[name] = powers.get(name, 0) + sign * int(match["power"] or 1)
        sign = 1
    return powers


STANDARD_NAMES = {"nobs": "number_of_observations", "stderr": "standard_error"}
"""CF standard names and modifiers."""


def variable_attrs(output: Output, name: str, units: str | None) -> dict[str, Any]:
    """Return the CF attributes of a variable of a fit, apart from those of the data themselves.

    Parameters
    ----------
    output : Output
        The row of the variable.
    name : str
        Name of the fitted variable, for the long_name.
    units : str, optional
        Units of the cube; None where it has none.
    """
    attrs: dict[str, Any] = {"long_name": output.long_name.format(name=name)}
    if output.name == "status":
        attrs["flag_values"] = np.array(list(STATUS.values()), dtype=np.int8)
        attrs["flag_meanings"] = " ".join(STATUS)
        attrs["standard_name"] = "status_flag"
    elif output.name in STANDARD_NAMES:
        attrs["standard_name"] = STANDARD_NAMES[output.name]
    if output.name != "status" and output.power == 0:
        attrs["units"] = "1"
    elif output.power and output.shape not in ("param", "bound") and units is not None:
        attrs["units"] = multiply_units(units, "", output.power, difference=output.difference)
    return attrs
