"""Tails and quantiles of Student's t, against its closed forms in 340 digits and against scipy."""

from __future__ import annotations

import functools

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from scipy import special

from xr_lstsq.statistics import student

DIGITS = 340
DOFS = (1, 2, 3, 4, 5, 8, 13, 30, 77, 128, 300, 1000, 4096)
SIZES = np.concatenate(
    [[0.0], np.logspace(-12, 0, 9), np.linspace(1.2, 40.0, 16), np.logspace(2, 306, 17)]
)
SMALLEST = {torch.float64: 1e-300, torch.float32: 1e-30}
ACCURACY = {torch.float64: 2e-12, torch.float32: 3e-5}
DTYPES = pytest.mark.parametrize("dtype", ACCURACY, ids=str)


def closed_form(t: float, dof: int) -> float:
    """Return the two-sided p-value from the finite sums of Abramowitz and Stegun 26.7.3-4."""
    with mp.workdps(DIGITS):
        angle = mp.atan(mp.mpf(t) / mp.sqrt(dof))
        sine, cosine = mp.sin(angle), mp.cos(angle)
        term = cosine if dof % 2 else mp.mpf(1)
        total = term if dof > 1 else mp.mpf(0)
        for k in range(2 + dof % 2, dof, 2):
            term *= cosine**2 * (k - 1) / k
            total += term
        inside = 2 / mp.pi * (angle + sine * total) if dof % 2 else sine * total
        return float(1 - inside)


@functools.cache
def expected(dof: int, dtype: torch.dtype) -> tuple[torch.Tensor, np.ndarray]:
    """Return sizes of t in a dtype, and their p-values where these are normal numbers."""
    t = torch.tensor(SIZES[torch.finfo(dtype).max > SIZES], dtype=dtype)
    want = np.array([closed_form(value, dof) for value in t.tolist()])
    return t[want > SMALLEST[dtype]], want[want > SMALLEST[dtype]]


def relative(got: torch.Tensor, want: np.ndarray) -> float:
    return float(abs(got.double().numpy() / want - 1).max())


def shared(t: torch.Tensor, dof: float) -> torch.Tensor:
    return torch.full((t.shape[-1],), dof)


@DTYPES
@pytest.mark.parametrize("dof", DOFS)
def test_a_tail_has_all_its_digits_from_1_down_to_the_smallest(
    dof: int, dtype: torch.dtype
) -> None:
    t, want = expected(dof, dtype)
    assert want.max() == 1
    assert want.min() < 1e-4
    got = student.two_sided(t, shared(t, dof))
    assert got.dtype == dtype
    assert relative(got, want) < ACCURACY[dtype]
    assert got[0] == 1


@pytest.mark.parametrize("dof", DOFS)
def test_the_real_way_agrees_at_whole_numbers(dof: int) -> None:
    t, want = expected(dof, torch.float64)
    assert relative(student.two_sided_real(t, shared(t, float(dof))), want) < 2e-12


def test_every_dof_of_every_table_agrees_with_scipy() -> None:
    t = torch.logspace(-3, 3, 61, dtype=torch.float64)[:, None]
    for largest in (1, 2, 3, 17, 128, 300, 1000):
        dof = torch.arange(1, largest + 1)
        got = student.two_sided(t.expand(-1, largest), dof).numpy()
        want = 2 * special.stdtr(dof.numpy(), -t.numpy())
        there = want > SMALLEST[torch.float64]
        np.testing.assert_allclose(got[there], want[there], rtol=1e-11)


@given(
    st.integers(1, 4096),
    st.lists(st.floats(0, 1e300), min_size=2, max_size=20),
    st.sampled_from(list(ACCURACY)),
)
def test_a_p_value_falls_with_the_size_of_t_and_has_no_sign(
    dof: int, sizes: list[float], dtype: torch.dtype
) -> None:
    t = torch.tensor(sizes, dtype=torch.float64).clamp(max=torch.finfo(dtype).max).to(dtype)
    t = t.sort().values
    got = student.two_sided(t, shared(t, dof))
    assert torch.equal(got, student.two_sided(-t, shared(t, dof)))
    assert ((got >= 0) & (got <= 1)).all()
    assert (got[1:] <= got[:-1] * (1 + ACCURACY[dtype])).all()


@given(st.integers(1, 4000), st.floats(0.5, 40))
def test_a_p_value_falls_with_dof_in_the_tail(dof: int, beyond: float) -> None:
    t = torch.tensor([[1.0 + beyond] * 3], dtype=torch.float64)
    got = student.two_sided(t, torch.tensor([dof, dof + 1, dof + 96]))[0]
    assert got[0] > got[1] > got[2]
    assert got[2] > student.two_sided_normal(t)[0, 0]


@given(st.lists(st.integers(-3, 5000), min_size=1, max_size=30), st.sampled_from(list(ACCURACY)))
def test_a_pixel_does_not_feel_its_neighbours(dofs: list[int], dtype: torch.dtype) -> None:
    rng = np.random.default_rng(len(dofs))
    t = torch.tensor(rng.normal(scale=3, size=(4, len(dofs))), dtype=dtype)
    together = student.two_sided(t, torch.tensor(dofs))
    alone = [student.two_sided(t[:, [k]], torch.tensor([dof])) for k, dof in enumerate(dofs)]
    torch.testing.assert_close(
        together, torch.cat(alone, 1), rtol=ACCURACY[dtype], atol=0.0, equal_nan=True
    )
    assert torch.equal(together.isnan().all(0), torch.tensor(dofs) <= 0)


@pytest.mark.parametrize("dof", [1, 2, 50, 4096, 4097, 10**6])
@DTYPES
def test_infinite_is_0_and_unknown_is_unknown(dof: int, dtype: torch.dtype) -> None:
    t = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0], dtype=dtype)
    want = torch.tensor([0.0, 0.0, torch.nan, 1.0], dtype=dtype)
    for got in (
        student.two_sided(t, shared(t, dof)),
        student.two_sided_real(t, shared(t, float(dof))),
        student.two_sided_normal(t),
    ):
        torch.testing.assert_close(got, want, rtol=0.0, atol=0.0, equal_nan=True)


def test_without_degrees_of_freedom_nothing_is_known() -> None:
    t = torch.tensor([[0.0, 2.0, torch.inf]] * 2, dtype=torch.float64)
    assert student.two_sided(t, torch.tensor([0, -1, -5])).isnan().all()
    assert student.two_sided_real(t, torch.tensor([0.0, -0.5, torch.nan])).isnan().all()
    assert student.quantile(0.9, torch.tensor([0, -1]), like=t).isnan().all()
    assert student.quantile(0.9, torch.tensor([0.0, torch.nan]), like=t).isnan().all()


def test_a_batch_may_be_empty() -> None:
    t, dof = torch.empty(3, 0), torch.empty(0, dtype=torch.int64)
    assert student.two_sided(t, dof).shape == (3, 0)
    assert student.quantile(0.9, dof, like=t).shape == (0,)
    assert student.quantile(0.9, dof.double(), like=t).shape == (0,)


def test_arguments_are_left_as_they_were() -> None:
    t, dof = torch.tensor([[-2.0, 3.0]]), torch.tensor([5, 0], dtype=torch.int32)
    student.two_sided(t, dof)
    student.two_sided_normal(t)
    assert t.tolist() == [[-2.0, 3.0]]
    assert dof.tolist() == [5, 0]


@pytest.mark.parametrize("dof", [0.05, 0.7, 1.0, 1.5, 3.3, 27.4, 311.9, 4096.5])
def test_real_degrees_of_freedom_agree_with_the_integral_of_the_density(dof: float) -> None:
    for size in (0.3, 1.0, 2.2, 7.0):
        t = torch.tensor([size], dtype=torch.float64)
        with mp.workdps(30):
            scale = mp.gamma((dof + 1) / 2) / (mp.gamma(mp.mpf(dof) / 2) * mp.sqrt(dof * mp.pi))
            # the density is that of tan, so that the integral is finite
            inside = mpmath.quad(
                lambda angle: mp.cos(angle) ** (mp.mpf(dof) - 1), [0, mp.atan(size / mp.sqrt(dof))]
            )
            want = float(1 - 2 * scale * mp.sqrt(dof) * inside)
        got = float(student.two_sided_real(t, torch.tensor([dof], dtype=torch.float64)))
        assert abs(got / want - 1) < 1e-11


@DTYPES
def test_the_normal_has_all_its_digits(dtype: torch.dtype) -> None:
    t = torch.cat([torch.linspace(0, 37, 200), torch.logspace(-12, 1, 50)]).to(dtype)
    with mp.workdps(40):
        want = np.array([float(mp.erfc(value / mp.sqrt(2))) for value in t.tolist()])
    there = want > SMALLEST[dtype]
    assert relative(student.two_sided_normal(t)[there], want[there]) < ACCURACY[dtype]


@given(
    st.floats(1e-3, 1 - 1e-9),
    st.lists(st.integers(1, 6000), min_size=1, max_size=9),
    st.booleans(),
)
def test_a_quantile_is_the_t_whose_p_value_is_the_rest(
    level: float, dofs: list[int], real: bool
) -> None:
    like = torch.empty(0, dtype=torch.float64)
    dof = torch.tensor(dofs) + (0.25 if real else 0)
    reach = student.quantile(level, dof, like=like)
    tails = student.two_sided_real(reach, dof).numpy()
    np.testing.assert_allclose(tails, 1 - level, rtol=2e-9)
    normal = student.quantile(level, None, like=like)
    assert normal.shape == ()
    assert abs(float(student.two_sided_normal(normal)) / (1 - level) - 1) < 1e-11
    assert (reach > normal).all()


def test_quantiles_have_the_dtype_asked_for() -> None:
    like = torch.empty(0, dtype=torch.float32)
    for dof in (None, torch.tensor([4]), torch.tensor([4.5]), torch.tensor([9999])):
        assert student.quantile(0.95, dof, like=like).dtype == torch.float32
