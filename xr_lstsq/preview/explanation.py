"""What a user is told before a solve: a record that reads as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["LANES", "Explanation", "Explanations"]

LANES = {
    "none": "no sample counts",
    "complete": "no gaps",
    "missing": "few gaps",
    "wide": "at least as many params as samples",
    "valid_rows": "few samples that count",
    "gram": "many gaps, or own weights",
    "own_design": "own design",
    "minimum_norm": "rank-revealing, the most costly",
}
"""Which pixels start in each lane."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """What the fit of one cube will take; `str` and `repr` are a table.

    Attributes
    ----------
    name : str
        The variable.
    pixels, samples, params : int
        Sizes of the cube and of its design.
    sampled : int
        Number of pixels that were looked at; what is said of all is scaled up from these.
    lanes : dict of str to int
        Number of pixels that start in each lane of the solver.
    again : dict of str to int
        How many of these their lane will not settle, so that they are solved a second time, in
        float64 or by the rank-revealing solver.
    device : str
        Where the fit runs.
    cores : int
        Batches that run side by side there.
    precision : str
        Number types in which pixels are solved first.
    batch_pixels, batch_bytes : int
        Pixels that are solved together, and their working memory in bytes.
    output_bytes : dict of str to int
        Size of each variable of the fit, in bytes.
    seconds : float
        Estimate of the time of the solve, without reading the input, writing the fit, or dask.
    """

    name: str
    pixels: int
    samples: int
    params: int
    sampled: int
    lanes: dict[str, int]
    again: dict[str, int]
    device: str
    cores: int
    precision: str
    batch_pixels: int
    batch_bytes: int
    output_bytes: dict[str, int]
    seconds: float

    def __str__(self) -> str:
        """Return the table."""
        part = self.sampled < self.pixels
        looked_at = f"from a sample of {self.sampled:,} pixels" if part else "all were looked at"
        side_by_side = f", {_count(self.cores, 'core')}" if self.device == "cpu" else ""
        rows = [
            ("device", self.device + side_by_side),
            ("precision", self.precision),
            ("batch", f"{_count(self.batch_pixels, 'pixel')}, {_size(self.batch_bytes)}"),
            ("lanes", looked_at),
        ]
        rows += [(f"  {name}", self._lane(name)) for name in self.lanes]
        rows.append(("answer", _size(sum(self.output_bytes.values()))))
        rows += [(f"  {name}", f"{_size(size):>12}") for name, size in self.output_bytes.items()]
        rows.append(("time", f"about {_time(self.seconds)}, without reading and writing"))
        sizes = (
            f"{_count(self.pixels, 'pixel')} of {_count(self.samples, 'sample')}, "
            f"{_count(self.params, 'param')}"
        )
        lines = [f"{self.name}: {sizes}", *(f"  {left:<16}{right}" for left, right in rows)]
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _lane(self, name: str) -> str:
        """Return what the table says of a lane."""
        number, again = self.lanes[name], self.again.get(name, 0)
        share = number / max(1, self.pixels)
        twice = f" ({again:,} solved again)" if again else ""
        return f"{number:>12,} {share:>6.1%}  {LANES.get(name, '')}{twice}"


@dataclass(frozen=True, repr=False)
class Explanations(Mapping[str, Explanation]):
    """What the fits of the variables of a Dataset will take: an `Explanation` for each name.

    Attributes
    ----------
    parts : dict of str to Explanation
        In the order in which they are fitted.
    """

    parts: dict[str, Explanation]

    @property
    def seconds(self) -> float:
        """Estimate of the time of all solves."""
        return sum(part.seconds for part in self.parts.values())

    def __getitem__(self, name: str) -> Explanation:
        """Return that of a variable."""
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self.parts)

    def __len__(self) -> int:
        """Return the number of variables."""
        return len(self.parts)

    def __str__(self) -> str:
        """Return the tables of all, and the time of all together."""
        together = f"all together: about {_time(self.seconds)}"
        return "\n\n".join([*map(str, self.parts.values()), *([together] * (len(self) > 1))])

    __repr__ = __str__


def _count(number: int, noun: str) -> str:
    """Return a number with what it counts."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(nbytes: int) -> str:
    """Return bytes in the unit in which they are read most easily."""
    size, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} B" if unit == "B" else f"{size:,.1f} {unit}"


def _time(seconds: float) -> str:
    """Return a time to two digits, which is more than an estimate knows."""
    for limit, unit, factor in ((1, "ms", 1e3), (90, "s", 1), (5400, "min", 1 / 60)):
        if seconds < limit:
            return f"{float(f'{seconds * factor:.2g}'):g} {unit}"
    return f"{float(f'{seconds / 3600:.2g}'):,g} h"
