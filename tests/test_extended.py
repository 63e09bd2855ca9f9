"""Extended precision, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from xr_lstsq.solvers.extended import EPS, Extended

numbers = st.floats(-1e9, 1e9, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-9)
arrays = hnp.arrays(np.float64, 7, elements=numbers)


def extended(hi: np.ndarray, lo: np.ndarray) -> Extended:
    """Return numbers with digits past float64."""
    return Extended(hi.copy()) + Extended(lo * 2.0**-60)


def exact(values: Extended) -> list[Fraction]:
    pairs = zip(np.ravel(values.hi), np.ravel(values.lo), strict=True)
    return [Fraction(float(hi)) + Fraction(float(lo)) for hi, lo in pairs]


@given(arrays, arrays, arrays, arrays)
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "truediv"])
def test_an_operation_keeps_twice_the_digits_of_float64(
    operation: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> None:
    left, right = extended(a, b), extended(np.where(c == 0, 1.0, c), d)
    got = exact(getattr(left, f"__{operation}__")(right))
    for value, x, y in zip(got, exact(left), exact(right), strict=True):
        want = getattr(x, f"__{operation}__")(y)
        size = abs(x) + abs(y) if operation in {"add", "sub"} else abs(want)
        assert abs(value - want) <= 8 * EPS * size


@given(hnp.arrays(np.float64, st.tuples(st.integers(0, 9), st.just(2)), elements=numbers))
def test_a_sum_keeps_what_float64_would_lose(values: np.ndarray) -> None:
    got = exact(Extended(values).sum())
    for total, column in zip(got, values.T, strict=True):
        want = sum((Fraction(float(x)) for x in column), Fraction(0))
        assert abs(total - want) <= 16 * EPS * sum(abs(Fraction(float(x))) for x in column)


@given(arrays)
def test_a_square_root_squares_back(values: np.ndarray) -> None:
    square = Extended(np.abs(values))
    root = square.sqrt()
    for got, want in zip(exact(root * root), exact(square), strict=True):
        assert abs(got - want) <= 16 * EPS * want


def test_parts_are_set_and_transposed_like_those_of_numpy() -> None:
    matrix = Extended(np.arange(6.0).reshape(2, 3), np.full((2, 3), 1e-20))
    matrix[0] = Extended(np.array([7.0, 8.0, 9.0]))
    assert matrix.T.shape == (3, 2)
    assert matrix.hi.tolist() == [[7.0, 8.0, 9.0], [3.0, 4.0, 5.0]]
    assert matrix.lo.tolist() == [[0.0] * 3, [1e-20] * 3]
    assert exact(-matrix[1, :1]) == [Fraction(-3) - Fraction(1e-20)]
