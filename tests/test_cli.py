from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner, Result

import xr_lstsq
from xr_lstsq.cli import main

DESIGN = "polynomial(1)+harmonics(1)"


def write_cube(path: Path, shape: tuple[int, int, int] = (24, 9, 11)) -> xr.Dataset:
    rng = np.random.default_rng(0)
    times = np.datetime64("2015-01-05", "ns") + np.arange(shape[0]) * np.timedelta64(31, "D")
    ndvi = rng.normal(0.5, 0.2, size=shape).astype(np.float32)
    clear = (rng.random(shape) < 0.8).astype(np.uint8)
    clear[:, 0, 0] = 0
    cube = xr.Dataset(
        {"ndvi": (("time", "y", "x"), ndvi), "clear": (("time", "y", "x"), clear)},
        coords={"time": times},
    )
    cube.assign(w=("time", rng.uniform(1, 9, shape[0]))).to_netcdf(path)
    return cube


@pytest.fixture
def cube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> xr.Dataset:
    monkeypatch.chdir(tmp_path)
    return write_cube(tmp_path / "in.nc")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def solve(*arguments: str) -> Result:
    return call("solve", "in.nc", "-o", "fit.nc", "--design", DESIGN, "--var", "ndvi", *arguments)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read(name: str = "fit.nc") -> xr.Dataset:
    with xr.open_dataset(name, decode_coords="all") as opened:
        return opened.load()


def test_the_shell_gives_the_fit_of_python(cube: xr.Dataset) -> None:
    result = solve("--dim", "time", "--valid", "clear", "--stats", "rss,rmse", "--stats", "dof")
    assert result.exit_code == 0, result.output
    want = cube["ndvi"].lstsq.solve(DESIGN, valid=cube["clear"], stats=("rss", "rmse", "dof"))
    xr.testing.assert_allclose(read(), want, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("cube")
def test_the_summary_is_three_lines_and_the_bar_shows_pixels() -> None:
    result = solve("--valid", "clear")
    first, second, third = result.stdout.splitlines()
    assert re.fullmatch(r"Stages: (\w+ \d+\.\d s, ){4}of all threads together", third)
    assert [word for word in ("read", "solve", "write") if word not in third] == []
    assert first.startswith("98 of 99 pixels solved in ")
    assert first.endswith("written to fit.nc")
    assert second == "Status: solved 98, no_data 1"
    assert "99.0/99.0" in result.stderr
    assert "pixel/s" in result.stderr


@pytest.mark.usefixtures("cube")
def test_quiet_says_nothing() -> None:
    assert solve("--quiet").output == ""


def test_every_option_acts(cube: xr.Dataset) -> None:
    def fit(*arguments: str) -> xr.Dataset:
        result = solve(*arguments)
        assert result.exit_code == 0, result.output
        return read()

    base = fit()
    assert abs(fit("--weights", "w")["coef"] - base["coef"]).max() > 1e-4
    assert (fit("--valid", "clear")["nobs"] < 24).any()
    value = cube["ndvi"].values[0, 0, 0]
    other = cube["ndvi"].values[1, 0, 0]
    assert fit("--nodata", f"{value:.9g}", "--nodata", f"{other:.9g}")["nobs"][0, 0] == 22
    assert (fit("--min-obs", "25")["status"] == 2).all()
    assert fit("--store", "float32")["coef"].dtype == np.float32
    single = fit("--dtype", "float32")["coef"]
    assert single.dtype == np.float32
    assert 0 < abs(single - base["coef"].astype(np.float32)).max() < 1e-5
    with_chunks = fit("--chunks", "y=4, x=5")
    assert with_chunks["coef"].encoding["chunksizes"][1:] == (4, 5)
    assert "device='cpu'" in fit("--device", "cpu").attrs["history"]


@pytest.mark.filterwarnings("default:the 3 samples along 'time' cannot tell")
def test_deficient_pixels_hold_what_is_asked_for(cube: xr.Dataset) -> None:
    cube.isel(time=slice(0, 3)).to_netcdf("short.nc")
    for deficient, is_nan, legend in (
        ("min_norm", False, "(minimum-norm coefficients kept)"),
        ("nan", True, "(NaN)"),
    ):
        arguments = ["solve", "short.nc", "-o", "fit.nc", "--var", "ndvi", "--design", DESIGN]
        result = call(*arguments, "--deficient", deficient)
        assert result.exit_code == 0
        assert legend in result.output
        assert result.output.count("cannot tell intercept, slope, cos_1, sin_1 apart") == 1
        assert (read()["status"] == 3).all()
        assert bool(read()["coef"].isnull().all()) is is_nan


@pytest.mark.usefixtures("cube")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--design", "poly(1)"], 2, "poly"),
        (["--design", "__import__('os')"], 2, "Error: "),
        (["--var", "ndwi"], 2, "var='ndwi' is not a variable of the file"),
        (["--dim", "tme"], 2, "'tme' is not a dim of 'ndvi'"),
        (["--valid", "ndvi"], 2, "Error: valid"),
        (["--stats", "rsquare"], 2, "rsquare"),
        (["--chunks", "y:5"], 2, "'y:5' is not NAME=SIZE"),
        (["--chunks", "time=5"], 2, "chunks cuts 'time'"),
        (["--deficient", "zero"], 2, "zero"),
        (["--device", "cuda:99"], 1, "cuda:99"),
        (["-o", "in.nc"], 2, "is the file that the data are read from"),
        (["-o", "no/fit.nc"], 1, "is not a directory"),
        (["-o", "fit.tif2"], 2, "suffix '.tif2'"),
    ],
)
def test_an_error_is_one_line_with_its_exit_code(
    tmp_path: Path, arguments: list[str], code: int, message: str
) -> None:
    result = solve(*arguments)
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert result.stdout == ""
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert "Traceback" not in result.output
    assert names(tmp_path) == ["in.nc"]


@pytest.mark.usefixtures("cube")
@pytest.mark.parametrize(
    ("content", "message"), [(None, "'bad.nc' does not exist"), (b"no", "not a readable netCDF")]
)
def test_a_bad_input_is_a_failure_of_the_file(content: bytes | None, message: str) -> None:
    if content is not None:
        Path("bad.nc").write_bytes(content)
    result = call("solve", "bad.nc", "-o", "fit.nc", "--design", DESIGN)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("cube")
def test_warnings_are_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    from xr_lstsq import runs

    original = runs.solve_file

    def warn(*arguments: object, **options: object) -> object:
        warnings.simplefilter("default")
        warnings.warn("two\nlines", stacklevel=1)
        return original(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "solve_file", warn)
    assert "Warning: two lines\n" in solve().stderr


def test_version_and_help_do_not_import_torch() -> None:
    assert xr_lstsq.__version__ in call("--version").output
    code = (
        "import sys\nfrom xr_lstsq.cli import main\n"
        "try:\n    main(['solve', '--help'])\n"
        "finally:\n    assert not {'torch', 'matplotlib'} & {*sys.modules}"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--design" in run.stdout


def test_the_demo_writes_a_fit_and_a_picture(tmp_path: Path) -> None:
    result = call("demo", "-o", str(tmp_path / "new" / "demo"))
    assert result.exit_code == 0, result.output
    folder = tmp_path / "new" / "demo"
    assert names(folder) == ["demo.png", "demo_fit.nc"]
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert len(result.stdout.splitlines()) == 4
    fit = read(str(folder / "demo_fit.nc"))
    assert fit["param"].values.tolist() == [
        "intercept",
        "slope",
        "cos_1",
        "sin_1",
        "cos_2",
        "sin_2",
    ]
    assert int(fit["nobs"].max()) < 68


def test_the_demo_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = call("demo", "-o", str(tmp_path / "demo"))
    assert result.exit_code == 1
    assert 'pip install "xr_lstsq[plot]"' in result.stderr
    assert not (tmp_path / "demo").exists()


# ------------------------------------------------------------------------ jobs that are cut short

SHELL = [sys.executable, "-c", "from xr_lstsq.cli import main; main()"]


def start_long_job(folder: Path) -> subprocess.Popen[str]:
    """Start a job of thousands of small windows, and return in the middle of it."""
    write_cube(folder / "in.nc", (20, 200, 200))
    command = ["solve", "in.nc", "-o", "fit.nc", "--design", DESIGN, "--var", "ndvi"]
    job = subprocess.Popen(
        [*SHELL, *command, "--chunks", "y=4,x=4"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(1200):
        if any(path.stat().st_size > 10_000 for path in folder.glob(".fit.nc.*.partial")):
            time.sleep(0.5)
            assert job.poll() is None
            return job
        time.sleep(0.05)
    job.kill()
    raise AssertionError("the job never began to write")


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "Interrupted"), (signal.SIGTERM, 143, "Terminated")],
)
def test_a_job_that_is_stopped_removes_what_it_began(
    tmp_path: Path, number: signal.Signals, code: int, word: str
) -> None:
    job = start_long_job(tmp_path)
    job.send_signal(number)
    stdout, stderr = job.communicate(timeout=60)
    assert job.returncode == code, stderr
    assert f"{word}; nothing was written." in stderr
    assert "Traceback" not in stderr
    assert stdout == ""
    assert names(tmp_path) == ["in.nc"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_job_that_is_killed_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    (tmp_path / "fit.nc").write_text("the old fit")
    job = start_long_job(tmp_path)
    job.kill()
    job.communicate(timeout=60)
    partial, *others = names(tmp_path)
    assert partial.startswith(".fit.nc.")
    assert partial.endswith(".partial")
    assert others == ["fit.nc", "in.nc"]
    assert (tmp_path / "fit.nc").read_text() == "the old fit"
