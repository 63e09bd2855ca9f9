"""Networks of pairs, such as interferograms: what happened between and at their dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from xr_lstsq.design.binding import check_name
from xr_lstsq.design.calendars import UNITS, date_ticks, unit_ticks
from xr_lstsq.design.columns import Columns
from xr_lstsq.design.dates import MISSING, DatesLike, as_date, given, read_dates
from xr_lstsq.design.ends import Ends, PairTerm
from xr_lstsq.design.intervals import DEGREES, UNKNOWNS, between, weak_rows
from xr_lstsq.design.registry import register
from xr_lstsq.errors import LabelError

__all__ = ["Network", "displacements", "network"]

Floats = NDArray[np.float64]
Unknown = Literal["velocity", "displacement", "increment"]
Constraint = Literal["linear", "quadratic"]


@register("network")
@dataclass(frozen=True, kw_only=True, repr=False)
class Network(PairTerm):
    """A network of pairs of dates; made by `network`. ``dates`` is None while it is unbound."""

    arguments: ClassVar[tuple[str, ...]] = (
        *("reference", "secondary", "unknown", "reference_date", "min_redundancy", "constraint"),
        *("unit", "name", "samples", "kind", "calendar", "dates"),
    )

    unknown: str = "velocity"
    reference_date: str | None = None
    min_redundancy: int = 1
    constraint: str | None = None
    unit: str = "year"
    name: str | None = None
    dates: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check the arguments, which may come from a file, and bring them to their one form."""
        super().__post_init__()
        for argument, known in (
            ("unknown", UNKNOWNS),
            ("constraint", (None, *DEGREES)),
            ("unit", tuple(UNITS)),
        ):
            value = getattr(self, argument)
            if value not in known:
                words = ", ".join(map(repr, known))
                raise ValueError(f"{argument}={value!r} is not known. Choose from {words}.")
        least: object = self.min_redundancy
        if isinstance(least, bool) or not (isinstance(least, int | np.integer) and least >= 0):
            raise ValueError(f"min_redundancy={least!r} must be a whole number, 0 or more.")
        object.__setattr__(self, "min_redundancy", int(least))
        check_name(self.name)
        object.__setattr__(self, "reference_date", as_date(self.reference_date, "reference_date"))
        if self.dates is not None or self.kind is not None:
            self._check_binding()

    def _check_binding(self) -> None:
        texts: Any = self.dates
        texts = texts.split(",") if isinstance(texts, str) else texts
        if self.kind is None or not isinstance(texts, Sequence) or len(texts) < 2:
            raise ValueError(
                f"dates={self.dates!r} and kind={self.kind!r} must both be there, with two dates "
                "or more, or neither."
            )
        dates, ticks = read_dates(texts, "dates")[0], self._ticks(texts)
        if MISSING in dates or sorted(set(ticks)) != ticks or self.reference_date not in dates:
            raise ValueError(
                f"dates={self.dates!r} must run from early to late, with reference_date="
                f"{self.reference_date!r} among them."
            )
        object.__setattr__(self, "dates", dates)

    def _ticks(self, dates: Sequence[str]) -> list[int]:
        return [date_ticks(text, str(self.calendar)) for text in dates]

    def bind(self, coord: xr.DataArray) -> Self:
        """Resolve dates, reference date and calendar on the samples; see `Term.bind`.

        Raises
        ------
        LabelError
            As `PairTerm.ends`, and for samples without a pair of dates.
        ValueError
            A reference date that is none of the dates, or dates of another kind.
        """
        ends = self.ends(coord)
        if self.dates is not None:
            return self
        dates = ends.dates()
        if not dates:
            raise LabelError(f"{self.word!r} finds no sample along {coord.dims[0]!r} with 2 dates.")
        start = dates[0] if self.reference_date is None else self.reference_date
        if start not in dates:
            raise ValueError(
                f"reference_date={start!r} is none of the {len(dates)} dates from {dates[0]} to "
                f"{dates[-1]}. Choose one of them: {', '.join(dates[:6])} ..."
            )
        return replace(self, **self.bound_to(coord, ends), dates=dates, reference_date=start)

    def evaluate(self, coord: xr.DataArray) -> Columns:
        """Make one column a param, shape (n, dates - 1); see `Term.evaluate`.

        Raises
        ------
        LabelError
            As `bind`, and for a date that the bound term does not know.
        """
        bound = self.bind(coord)
        return bound._columns(bound.ends(coord))

    def _columns(self, ends: Ends) -> Columns:
        """Make the columns of a bound term."""
        dates = self.dates or ()
        place = {text: number for number, text in enumerate(dates)}
        both = zip(ends.reference, ends.secondary, strict=True)
        there = np.array([MISSING not in pair for pair in both], dtype=np.bool_)
        sides = []
        for texts in (ends.reference, ends.secondary):
            known = [text for text, whole in zip(texts, there, strict=True) if whole]
            strange = [text for text in known if text not in place]
            if strange:
                raise LabelError(
                    f"{strange[0]} is none of the {len(dates)} dates of the network, from "
                    f"{dates[0]} to {dates[-1]}. Pass pairs of its dates: it knows nothing between."
                )
            sides.append(np.array([place.get(text, 0) for text in texts], dtype=np.int64))
        first, second = sides
        matrix = self._rows(first, second)
        matrix[~there] = np.nan
        rate = f"{self.unit}-1" if self.unknown == "velocity" else ""
        own = np.arange(len(dates))[:, None]
        groups = ((first == own) | (second == own)) & there
        return Columns(
            matrix=matrix,
            names=self.names,
            units=(rate,) * len(self.names),
            long_names=self._long_names(),
            levels=(False,) * len(self.names),
            origins=("",) * len(self.names),
            required=(groups, self.min_redundancy) if self.min_redundancy else None,
            constraint=None
            if self.constraint is None
            else weak_rows(displacements(self)[1], self._ticks(dates), DEGREES[self.constraint]),
        )

    def _rows(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> Floats:
        """Return what the params give from one date to another, by the places of both."""
        dates = self.dates or ()
        unit, start = unit_ticks(self.unit, str(self.calendar)), str(self.reference_date)
        ticks = self._ticks(dates)
        return between(self.unknown, ticks, unit, dates.index(start), first, second)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the params of a bound term, in order."""
        dates = self.dates or ()
        prefix = f"{self.unknown}_" if self.name is None else f"{self.name}_{self.unknown}_"
        if self.unknown == "displacement":
            return tuple(prefix + text for text in dates if text != self.reference_date)
        return tuple(prefix + text for text in dates[1:])

    def _long_names(self) -> tuple[str, ...]:
        """Return what each param is."""
        dates, start = self.dates or (), self.reference_date
        if self.unknown == "displacement":
            return tuple(f"displacement at {text} since {start}" for text in dates if text != start)
        word = "velocity" if self.unknown == "velocity" else "change"
        return tuple(f"{word} from {early} to {late}" for early, late in pairwise(dates))


def network(
    reference: DatesLike = "reference",
    secondary: DatesLike = "secondary",
    unknown: Unknown = "velocity",
    reference_date: Any = None,
    min_redundancy: int = 1,
    constraint: Constraint | None = None,
    unit: str = "year",
    name: str | None = None,
) -> Network:
    r"""Make a network of pairs of dates, such as a stack of unwrapped interferograms.

    A sample is a pair: its value is that at its secondary date minus that at its reference date.
    Pairs may stand in any order, and a secondary date may be earlier than its reference date.

    Parameters
    ----------
    reference, secondary : str, DataArray or array, shape (n,)
        The two dates of each sample: name of a coordinate along the sample dim, or datetime64,
        cftime dates or ISO 8601 texts. A DataArray with labels is matched with the samples by
        them, an array is in their order. A missing date makes a missing sample.
    unknown : {"velocity", "displacement", "increment"}
        What the params are: the mean velocity in each interval between successive dates, the change
        in each, or the displacement at each date but ``reference_date``. Where pairs connect all
        dates the three say the same. Where they do not, the answer is the one with the smallest sum
        of squares of these params.
    reference_date : date, optional
        Date at which the displacement is 0; default the first. With velocities and increments it
        counts only where displacements are made of them.
    min_redundancy : int
        How many valid pairs each date, the reference date too, must have in a pixel, which else is
        NaN with the status too_few_obs; 0 solves every pixel.
    constraint : {"linear", "quadratic"}, optional
        Ties the parts of a network that no pair connects: where a pixel's pairs do not determine
        its displacements, those at all dates keep near a polynomial of time. Use it with
        ``min_redundancy=0``, since a date without a pair makes a pixel NaN before. Pixels whose
        pairs determine all displacements keep their exact answer.
    unit : {"year", "day", "hour", "minute", "second"}
        Unit of time of velocities, as in `polynomial`.
    name : str, optional
        First part of the param names: ``"x"`` gives x_velocity_2018-03-21.

    Returns
    -------
    Network
        A `Term`. Params are called by the date at which they end, such as
        ``velocity_2018-03-21``, ``increment_2018-03-21`` or ``displacement_2018-03-21``.

    Raises
    ------
    LabelError
        No dates, or of two kinds, calendars or sets of labels.
    ValueError
        Another argument that is not as above.

    Notes
    -----
    With dates :math:`t_0 < \ldots < t_m`, the value of a pair (r, s) is :math:`d(t_s) - d(t_r)`,
    which is :math:`\sum_{r < k \le s} v_k (t_k - t_{k-1})` with velocities [1]_,
    :math:`\sum_{r < k \le s} \Delta_k` with increments, and the other sign where s is earlier than
    r. Lengths of intervals are rounded once, to float64. A constraint [2]_, [3]_ adds, for pixels
    of short rank only, :math:`|\gamma (I - P) D x|^2` to the sum of squares, with x the params,
    D x the displacements at all dates, P the projection on polynomials of time of its degree, a
    constant among them, and :math:`\gamma` 1e-4 times the root of the pixel's largest weight.

    References
    ----------
    .. [1] P. Berardino, G. Fornaro, R. Lanari, E. Sansosti, 2002. A new algorithm for surface
       deformation monitoring based on small baseline differential SAR interferograms. IEEE TGRS
       40. https://doi.org/10.1109/TGRS.2002.803792
    .. [2] P. Lopez-Quiroz, M.-P. Doin, F. Tupin, P. Briole, J.-M. Nicolas, 2009. Time series
       analysis of Mexico City subsidence constrained by radar interferometry. J. Appl. Geophys.
       69. https://doi.org/10.1016/j.jappgeo.2009.02.010
    .. [3] M.-P. Doin et al., 2011. Presentation of the small baseline NSBAS processing chain on a
       case example: the Etna deformation monitoring from 2003 to 2010. Proc. ESA Fringe 2011.

    Examples
    --------
    >>> network(["2018-03-09", "2018-03-09"], ["2018-03-21", "2018-04-02"], unknown="increment")
    network(reference="2018-03-09,2018-03-09", secondary="2018-03-21,2018-04-02", unknown=increment)
    """
    return Network(
        **given(reference, secondary),
        unknown=unknown,
        reference_date=as_date(reference_date, "reference_date"),
        min_redundancy=min_redundancy,
        constraint=constraint,
        unit=unit,
        name=name,
    )


def displacements(term: Network) -> tuple[list[str], Floats]:
    """Return what makes displacements at all dates of the params of a network.

    Parameters
    ----------
    term : Network
        Bound.

    Returns
    -------
    dates : list of str, length k
        ISO 8601 texts, from early to late.
    matrix : ndarray of float64, shape (k, p)
        Times the params: the displacement at each date since the reference date, whose row is 0.
        The difference of the rows of two dates is exactly the row of their pair in the design.

    Raises
    ------
    ValueError
        The network is not bound.
    """
    if term.dates is None:
        raise ValueError("displacements need the dates of a network: bind it to samples first.")
    every = np.arange(len(term.dates))
    start = term.dates.index(str(term.reference_date))
    return list(term.dates), term._rows(np.full_like(every, start), every)
