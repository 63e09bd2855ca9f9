"""The commands of the shell: arguments in, `runs` called, progress and errors out."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from xr_lstsq.cli.options import fit_options, run_options

if TYPE_CHECKING:
    from types import FrameType

    from xr_lstsq.runs import Given, RunSummary

__all__ = ["main"]

# What a shell expects of a program that a signal ends: 128 and the number of the signal.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xr_lstsq")
def main() -> None:
    """Least squares for every pixel of a cube in files, each pixel with its own gaps.

    Exit codes: 0 done, 1 a file, disk or device failed, 2 an argument does not fit, 130 and 143
    interrupted. Whatever the code but 0, nothing half-written stands under the name of the output.
    """


# \b keeps the lines of an example as they are.
_EXAMPLE = """\b
xr-lstsq {} --var ndvi --dim time \\
    --design "polynomial(1)+harmonics(1,2)" --valid clear --stats default"""


@main.command(epilog=_EXAMPLE.format("solve ndvi.nc -o fit.nc"))
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    required=True,
    type=click.Path(path_type=Path),
    help="The fit: OUT.nc, OUT.zarr, or OUT.tif for OUT_coef.tif and so on. It appears when it is "
    "complete, and replaces one of that name.",
)
@fit_options
@click.option(
    "--store", type=click.Choice(["float32", "float64"]), help="Type of the floats in OUT."
)
@run_options
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
def solve(
    source: Given, output: Path, design: str, *, quiet: bool, log_json: str | None, **options: Any
) -> None:
    """Fit the pixels of a cube and write coefficients, nobs, rank and status."""
    with _one_line_errors(), _log(log_json) as tell:
        from xr_lstsq import runs

        with runs.bar(visible=not quiet) as progress:
            summary = runs.solve_file(
                source, output, design, progress=progress, tell=tell, **options
            )
    if not quiet:
        # Standard output is for the events alone where these go there
        _print_summary(summary, options["deficient"], err=log_json == "-")


@main.command(epilog=_EXAMPLE.format("explain ndvi.nc"))
@fit_options
def explain(source: Given, design: str, **options: Any) -> None:
    """Say beforehand what solve will do and take."""
    with _one_line_errors():
        from xr_lstsq import runs

        table = str(runs.explain_file(source, design, **options))
    click.echo(table)


@main.command()
@click.argument("fit", metavar="FIT", type=click.Path(path_type=Path))
def info(fit: Path) -> None:
    """Say what a fit in a file is: what was fitted, with what, and the pixels of each status."""
    with _one_line_errors():
        from xr_lstsq import runs

        table = str(runs.info_file(fit))
    click.echo(table)


@main.command()
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    default=".",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where demo_fit.nc and demo.png go.",
)
def demo(folder: Path) -> None:
    """Fit the sample cube and draw the fit: demo_fit.nc and demo.png.

    The cube is Sentinel-2 NDVI of 1 km2 in Slovenia on 68 dates of 2015 to 2017, 60 % of them
    cloudless. The design is an offset, a trend and an annual cycle with two harmonics.
    """
    with _one_line_errors():
        # Before the fit, so that nobody waits for it only to learn that matplotlib is missing.
        from xr_lstsq import plot

        plot.require_matplotlib()
        from xr_lstsq import runs
        from xr_lstsq.formats import netcdf

        folder.mkdir(parents=True, exist_ok=True)
        fit_file, picture = folder / "demo_fit.nc", folder / "demo.png"
        with runs.bar(visible=True) as progress:
            summary = runs.solve_file(
                runs.sample_path(),
                fit_file,
                "polynomial(1) + harmonics(1, 2)",
                var="ndvi",
                dim="time",
                valid="valid",
                stats="default",
                progress=progress,
            )
        with netcdf.open(runs.sample_path()) as cube, netcdf.open(fit_file) as fit:
            figure = plot.overview(fit, cube["ndvi"], valid=cube["valid"])
            plot.save(figure, picture)
    _print_summary(summary, "min_norm")
    click.echo(f"Picture: {picture}")


@contextmanager
def _log(path: str | None) -> Iterator[Callable[[dict[str, Any]], None] | None]:
    """Give a function that appends the record of an event to a file as a line of JSON."""
    if path is None:
        yield None
        return
    with click.open_file(path, "a", encoding="utf-8") as file:

        def tell(record: dict[str, Any]) -> None:
            # At once, and a number that JSON does not know as text
            file.write(json.dumps(record, default=str) + "\n")
            file.flush()

        yield tell


def _print_summary(summary: RunSummary, deficient: str, *, err: bool = False) -> None:
    files = ", ".join(map(str, summary.files))
    rate = summary.pixels / max(summary.seconds, 1e-9)
    solved = summary.statuses.get("solved", 0)
    holds = {"min_norm": "minimum-norm coefficients kept", "nan": "NaN"}[deficient]
    legend = {"rank_deficient": f" ({holds})"}
    rest = [f"{n} {count}{legend.get(n, '')}" for n, count in summary.statuses.items() if count]
    click.echo(
        f"{solved} of {summary.pixels} pixels solved in {summary.seconds:.1f} s "
        f"({rate:.3g} pixels/s), written to {files}",
        err=err,
    )
    click.echo(f"Status: {', '.join(rest) or 'no pixels'}", err=err)
    if summary.stages:
        spent = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in summary.stages.items())
        click.echo(f"Stages: {spent}, of all threads together", err=err)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Report errors, warnings and signals in one line each, with the exit code of their kind."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    except KeyboardInterrupt as error:
        _fail(_ended("Interrupted", error), INTERRUPTED)
    except Terminated as error:
        _fail(_ended("Terminated", error), TERMINATED)
    except (OSError, RuntimeError, MemoryError, ImportError) as error:
        _fail(error, 1)
    except (ValueError, TypeError) as error:
        _fail(error, 2)
    finally:
        signal.signal(signal.SIGTERM, before)


class Terminated(BaseException):
    """SIGTERM as an exception, so that the file in the making is removed on the way out."""


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


def _ended(how: str, error: BaseException) -> str:
    # What is left of the work stands in a note, where there is any.
    return f"{how}; {' '.join(getattr(error, '__notes__', ['nothing was written.']))}"


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"Warning: {' '.join(str(message).split())}", err=True)


def _fail(error: BaseException | str, code: int) -> NoReturn:
    told = [str(error) or type(error).__name__, *getattr(error, "__notes__", ())]
    text = " ".join(" ".join(told).split())
    click.echo(text if isinstance(error, str) else f"Error: {text}", err=True)
    sys.exit(code)
