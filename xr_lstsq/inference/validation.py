"""What validating a fit has found: a record that reads as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Difference", "Validation"]


@dataclass(frozen=True)
class Difference:
    """How far a variable of a fit lies from what its pixels give when they are fitted again.

    Attributes
    ----------
    values : int
        Number of values that were compared.
    absolute : float
        Largest difference; infinite where only one of the two is NaN.
    relative : float
        The same over the largest value of the variable (of the same param, where it has params)
        among the pixels that were drawn.
    of_bound : float
        Largest difference over its bound.
    pixels : int
        Number of pixels that have a difference above its bound.
    """

    values: int
    absolute: float
    relative: float
    of_bound: float
    pixels: int


@dataclass(frozen=True, repr=False)
class Validation:
    """What validating a fit has found; `str` and `repr` are a table.

    Attributes
    ----------
    pixels, total : int
        Number of pixels that were fitted again, and that the fit has; those of all variables.
    unsettled : int
        How many of these are a matter of rounding, so that only nobs is compared of them: those
        with a singular value within a factor 10 of the cut-off of the rank, and with
        ``noise="ar1"`` those whose residuals are nothing else.
    differences : mapping of str to Difference
        By the names of the variables of the fit.
    """

    pixels: int
    total: int
    unsettled: int
    differences: Mapping[str, Difference]

    @property
    def passed(self) -> bool:
        """Whether every difference lies within its bound."""
        return all(found.pixels == 0 for found in self.differences.values())

    def __str__(self) -> str:
        """Return the table."""
        head = f"{self.pixels:,} of {self.total:,} pixels fitted again"
        if self.unsettled:
            head += f"; {self.unsettled:,} of them are a matter of rounding"
        rows = [("variable", "values", "largest diff.", "relative", "of bound", "pixels beyond")]
        rows += [
            (
                name,
                f"{found.values:,}",
                f"{found.absolute:.2g}",
                f"{found.relative:.2g}",
                f"{found.of_bound:.2g}",
                f"{found.pixels:,}" if found.pixels else "-",
            )
            for name, found in self.differences.items()
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        verdict = "all within their bounds" if self.passed else "NOT what the cube gives"
        return "\n".join([head, *(f"  {line}" for line in lines), verdict])

    __repr__ = __str__
