"""Options of the shell: what every command asks about a fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xr_lstsq.method import COV_TYPES
from xr_lstsq.outputs import DEFAULT, STATS

if TYPE_CHECKING:
    from xr_lstsq.runs import Given

__all__ = ["fit_options", "run_options"]


def _parse_chunks(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> dict[str, int] | None:
    if text is None:
        return None
    chunks = {}
    for part in text.split(","):
        name, _, size = (word.strip() for word in part.partition("="))
        if not name or not size.lstrip("-").isdigit():
            raise click.BadParameter(f"{part!r} is not NAME=SIZE. Write for instance y=256,x=256.")
        chunks[name] = int(size)
    return chunks


def _parse_sources(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> Given:
    """Return one path, several, or those of variables: NAME=PATH."""
    named = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if equals and name.isidentifier() and not Path(text).exists():
            named[name] = path
    if not named:
        return texts[0] if len(texts) == 1 else texts
    if len(named) < len(texts):
        raise click.BadParameter("either all are NAME=PATH, each of another name, or none is.")
    return named


def _parse_band(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> int | str | None:
    return int(text) if text is not None and text.isdigit() else text


def _parse_names(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())


def _parse_numbers(
    _context: click.Context, _parameter: click.Parameter, numbers: tuple[float, ...]
) -> list[float] | None:
    return list(numbers) or None


_OPTIONS = (
    click.argument("source", metavar="IN...", nargs=-1, required=True, callback=_parse_sources),
    click.option(
        "--design",
        required=True,
        metavar="TERMS",
        help="Terms joined by +, such as 'polynomial(1) + harmonics(1, 2)': offset and trend, and "
        "a cycle of 1 year with 2 harmonics.",
    ),
    click.option(
        "--group", metavar="NAME", help="Group of IN, such as science/grids; netCDF and Zarr."
    ),
    click.option(
        "--band",
        metavar="BAND",
        callback=_parse_band,
        help="Number (from 1) or description of the band that is read of each GeoTIFF file.",
    ),
    click.option("--var", metavar="NAME", help="Variable to fit; may be left out if there is one."),
    click.option("--dim", metavar="NAME", help="Sample dim; the only one with dates if left out."),
    click.option("--weights", metavar="VAR", help="Variable with weights (inverse variances)."),
    click.option(
        "--valid", metavar="VAR", help="Variable that is 1 where a sample counts, else 0."
    ),
    click.option(
        "--nodata",
        multiple=True,
        type=float,
        callback=_parse_numbers,
        help="Value that also means missing. Repeatable.",
    ),
    click.option(
        "--stats",
        multiple=True,
        metavar="NAMES",
        callback=_parse_names,
        help=f"Further results, with commas or repeated: {', '.join(STATS)}; default stands for "
        f"{', '.join(DEFAULT)}.",
    ),
    click.option(
        "--cov-type",
        type=click.Choice(COV_TYPES),
        default="nonrobust",
        show_default=True,
        help="How errors and tests of coefficients are made.",
    ),
    click.option("--maxlags", type=int, help="Steps of time of --cov-type HAC."),
    click.option("--absolute-sigma", is_flag=True, help="The weights are true inverse variances."),
    click.option(
        "--noise", type=click.Choice(["ar1"]), help="Fit by a model of autocorrelated noise."
    ),
    click.option("--level", type=float, default=0.95, show_default=True, help="Level of conf_int."),
    click.option(
        "--min-obs", type=int, default=1, show_default=True, help="Fewest samples to fit."
    ),
    click.option(
        "--deficient",
        type=click.Choice(["min_norm", "nan"]),
        default="min_norm",
        show_default=True,
        help="What a rank-deficient pixel holds.",
    ),
    click.option(
        "--chunks",
        metavar="DIM=SIZE,...",
        callback=_parse_chunks,
        help="Pixels solved together, such as y=256,x=256. Follows the storage of IN.nc if left "
        "out.",
    ),
    click.option(
        "--dtype",
        type=click.Choice(["float64", "float32"]),
        default="float64",
        show_default=True,
        help="Precision of the solve; float32 is faster.",
    ),
    click.option(
        "--device",
        default="auto",
        show_default=True,
        help="auto, cpu, cuda, or cuda:N for one GPU.",
    ),
)
"""What every command asks about a fit."""


_RUN_OPTIONS = (
    click.option(
        "--max-memory",
        metavar="SIZE",
        help="Memory of the whole process, such as 1GB; at least 500MB. On a cluster, of each "
        "worker.",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Solve on the workers of a dask scheduler, such as tcp://10.0.0.1:8786.",
    ),
    click.option(
        "--skip-unreadable",
        is_flag=True,
        help="Go on where IN cannot be read; pixels there get NaN and the status failed.",
    ),
    click.option(
        "--complevel",
        type=click.IntRange(0, 9),
        help="Level of zlib for the floats of OUT.nc; without it they are stored as they are.",
    ),
    click.option("--cog/--no-cog", default=None, help="Whether GeoTIFF files are cloud optimized."),
    click.option(
        "--resume",
        is_flag=True,
        help="Go on with an interrupted run into the Zarr store OUT.zarr, where there is one.",
    ),
    click.option(
        "--log-json",
        metavar="FILE",
        type=click.Path(dir_okay=False, allow_dash=True),
        help="Append a line of JSON for each event: start, window, end or error. - is standard "
        "output.",
    ),
)
"""How a run is done."""


def run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a run."""
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return command


def fit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the cube and the options of a fit."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
