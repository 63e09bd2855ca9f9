"""Runs into a Zarr store that are interrupted and go on, and the ledger by which they do."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
import zarr as zarr_python

from tests.stores import DESIGN, listed, make_cube, tree
from xr_lstsq import runs
from xr_lstsq.errors import WriteError
from xr_lstsq.formats import zarr
from xr_lstsq.formats.ledger import Ledger, open_ledger

CHUNKS = {"y": 3, "x": 5}
REGIONS = 8
FIRST, LATER = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC), datetime(2032, 1, 1, tzinfo=UTC)
HIDDEN = [".fit.zarr.ledger", ".fit.zarr.partial"]


class StopError(Exception):
    """What ends a run in these tests."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a cube in a folder of its own, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    # A chunk a thread is a window, so that a run can be stopped after any chunk
    monkeypatch.setattr("xr_lstsq.formats.windows.AHEAD", 1)
    make_cube().to_netcdf("in.nc")
    return tmp_path


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Set the clock by which stores are dated."""

    def set_to(moment: datetime) -> None:
        class Fixed(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
                return moment.astimezone(tz)

        monkeypatch.setattr("xr_lstsq.formats.cf.datetime", Fixed)

    set_to(FIRST)
    return set_to


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the pixels of every block that is solved."""
    from xr_lstsq import device

    original: Callable[..., Any] = device.solve_block
    sizes: list[int] = []

    def count(cube: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(cube.size // 12)
        return original(cube, *args, **kwargs)

    monkeypatch.setattr(device, "solve_block", count)
    return sizes


def solve(output: str = "fit.zarr", **options: Any) -> runs.RunSummary:
    given = {"var": "h", "stats": ("rss", "residual"), "chunks": CHUNKS, **options}
    return runs.solve_file("in.nc", output, given.pop("design", DESIGN), **given)


def interrupt(
    after: int = 3,
    error: type[BaseException] = StopError,
    run: Callable[..., Any] = solve,
    **options: Any,
) -> None:
    """Run until so many chunks have been told of, one in a window."""
    calls = 0

    def stop(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > after:  # the first call tells of no chunk
            raise error

    with dask.config.set(num_workers=1), pytest.raises(error):
        run(progress=stop, **options)


def whole(output: str = "whole.zarr", **options: Any) -> dict[str, bytes]:
    """Return the files of a store that was written without an interruption."""
    Path("other").mkdir()
    solve(f"other/{output}", **options)
    return tree(Path("other", output))


def done() -> list[Any]:
    """Return what the ledger says of the store."""
    _, *lines = Path(".fit.zarr.ledger").read_text().splitlines()
    return [json.loads(line)["done"] for line in lines]


# ------------------------------------------------------------------------------------- in process


@pytest.mark.parametrize(
    ("version", "after", "error"),
    [
        (2, 2, StopError),
        (2, REGIONS, KeyboardInterrupt),
        (3, 1, KeyboardInterrupt),
        (3, 4, StopError),
        (3, REGIONS, StopError),
    ],
)
def test_the_finished_store_is_that_of_an_uninterrupted_run_bit_for_bit(
    set_clock: Callable[[datetime], None],
    solved: list[int],
    version: int,
    after: int,
    error: type[BaseException],
) -> None:
    with zarr_python.config.set({"default_zarr_format": version}):
        want = whole("fit.zarr")
        solved.clear()
        interrupt(after, error)
        assert listed(Path()) == [*HIDDEN, "in.nc", "other"]
        before = sum(isinstance(one, list) for one in done())
        assert after <= before <= after + 2  # one is written while the next is solved
        set_clock(LATER)
        told: list[tuple[int, int]] = []
        summary = solve(resume=True, progress=lambda *pixels: told.append(pixels))
    got = tree(Path("fit.zarr"))
    assert got == {name: content.replace(b"other/", b"") for name, content in want.items()}
    assert b"2031-05-06T07:08:09Z" in b"".join(got.values())
    assert listed(Path()) == ["fit.zarr", "in.nc", "other"]
    # A chunk that was being solved at the end of the first is solved again, and no other
    assert 120 <= sum(solved) <= 120 + 2 * 15
    assert told[0] == (0, 120)
    assert told[-1] == (120, 120)
    assert sum(summary.statuses.values()) == summary.pixels == 120
    assert summary.statuses["no_data"] == 1


@pytest.mark.usefixtures("set_clock")
def test_a_run_may_be_interrupted_again_and_again(solved: list[int]) -> None:
    want = whole("fit.zarr")
    solved.clear()
    interrupt(1)
    for after in (2, 4, 6):
        interrupt(after, resume=True)
    solve(resume=True)
    assert tree(Path("fit.zarr")) == {n: c.replace(b"other/", b"") for n, c in want.items()}
    assert sum(solved) <= 120 + 4 * 2 * 15


def test_finished_chunks_without_an_object_are_neither_solved_again_nor_lost(
    solved: list[int],
) -> None:
    interrupt(5)
    finished = sum(isinstance(one, list) for one in done())
    # All pixels of the second chunk are solved, which is 0, the fill value of the storage
    assert not Path(".fit.zarr.partial/status/c/0/1").exists()
    assert Path(".fit.zarr.partial/coef/c/0/0/1").exists()
    solved.clear()
    solve(resume=True)
    assert len(solved) == REGIONS - finished
    assert (xr.open_zarr("fit.zarr", chunks=None)["status"][:3, 5:] == 0).all()


def test_a_run_without_resume_starts_anew(set_clock: Callable[[datetime], None]) -> None:
    interrupt(4)
    set_clock(LATER)
    solve()
    assert listed(Path()) == ["fit.zarr", "in.nc"]
    assert xr.open_zarr("fit.zarr").attrs["history"].startswith("2032-01-01")


def test_resume_without_an_earlier_run_starts_one(solved: list[int]) -> None:
    solve(resume=True)
    assert sum(solved) == 120
    assert listed(Path()) == ["fit.zarr", "in.nc"]
    # The night after: the store is whole, and there is nothing to go on with
    solve(resume=True)
    assert sum(solved) == 2 * 120
    assert listed(Path()) == ["fit.zarr", "in.nc"]


def test_the_old_store_stays_until_the_new_one_is_whole() -> None:
    solve(design="polynomial(1)")
    before = tree(Path("fit.zarr"))
    interrupt(3)
    assert tree(Path("fit.zarr")) == before
    solve(resume=True)
    assert xr.open_zarr("fit.zarr").sizes["param"] == 4
    assert listed(Path()) == ["fit.zarr", "in.nc"]


def test_what_failed_before_its_first_chunk_leaves_nothing() -> None:
    interrupt(0)
    assert listed(Path()) == ["in.nc"]


# ---------------------------------------------------------------------------------------- refusals


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"design": "polynomial(2)"}, "arguments.design was .* and is 'polynomial"),
    ({"stats": ("rss",)}, r"arguments.stats was \['rss', 'residual'\] and is \['rss'\]"),
    ({"weights": "w"}, "arguments.weights was None and is 'w'"),
    ({"min_obs": 5}, "arguments.min_obs was None and is 5"),
    ({"chunks": {"y": 4, "x": 5}}, r"coef.chunks was \[4, 3, 5\] and is \[4, 4, 5\]"),
    ({"store": "float32"}, "output.store was None and is 'float32'"),
    ({"nodata": [0.25]}, r"arguments.nodata was None and is \['0.25'\]"),
]


def test_a_run_with_other_arguments_is_refused() -> None:
    interrupt(3)
    before = tree(Path())
    for options, message in OTHERS:
        with pytest.raises(ValueError, match=f"with other arguments or inputs: .*{message}"):
            solve(resume=True, **options)
    assert tree(Path()) == before
    solve(resume=True)
    assert listed(Path()) == ["fit.zarr", "in.nc"]


def test_a_labelled_design_with_other_numbers_is_refused() -> None:
    cube = make_cube()
    matrix = xr.DataArray(
        np.stack([np.ones(12), np.arange(12.0)], axis=1),
        {"time": cube["time"], "param": ["a", "b"]},
        ("time", "param"),
    )
    interrupt(3, design=matrix)
    other = matrix.copy(data=matrix.values + np.array([0.0, 1e-9]))
    with pytest.raises(
        ValueError, match=r"arguments\.design was '.*' and is '.*Give what that run"
    ):
        solve(resume=True, design=other)
    solve(resume=True, design=matrix.copy())
    assert listed(Path()) == ["fit.zarr", "in.nc"]


@pytest.mark.parametrize("change", ["values", "time of change"])
def test_a_changed_input_is_refused(change: str) -> None:
    interrupt(3)
    message = r"inputs\.last change was '20.* and is"
    if change == "values":
        make_cube(seed=1).to_netcdf("in.nc")
    else:
        os.utime("in.nc", ns=(0, 0))
        message += r" '1970-01-01T00:00:00\+00:00'"
    with pytest.raises(ValueError, match=message):
        solve(resume=True)


def test_netcdf_cannot_be_resumed() -> None:
    with pytest.raises(ValueError, match=r"netCDF.*write Zarr, such as fit\.zarr"):
        solve("fit.nc", resume=True)


# ------------------------------------------------------------------------------ ledgers and stores


def test_a_torn_last_line_is_a_chunk_that_is_not_done(set_clock: Callable[..., None]) -> None:
    want = whole("fit.zarr")
    interrupt(4)
    ledger = Path(".fit.zarr.ledger")
    content = ledger.read_bytes()
    for torn in (content[:-1], content[:-5], content + b'{"do'):
        ledger.write_bytes(torn)
        with open_ledger(ledger) as opened:
            assert opened.read()
        assert ledger.read_bytes().endswith(b"\n")
    set_clock(LATER)
    solve(resume=True)
    assert tree(Path("fit.zarr")) == {n: c.replace(b"other/", b"") for n, c in want.items()}


@pytest.mark.parametrize("content", [b"", b'{"format": 1, "finge'])
def test_a_ledger_without_a_whole_line_is_none(solved: list[int], content: bytes) -> None:
    Path(".fit.zarr.ledger").write_bytes(content)
    solve(resume=True)
    assert sum(solved) == 120
    assert listed(Path()) == ["fit.zarr", "in.nc"]


@pytest.mark.parametrize("content", [b'{"format": 99}\n', b"text\n", b"[]\n"])
def test_what_is_no_ledger_is_refused_and_kept(content: bytes) -> None:
    Path(".fit.zarr.ledger").write_bytes(content)
    with pytest.raises(WriteError, match=r"is not a ledger that this version reads.*Leave out"):
        solve(resume=True)
    assert Path(".fit.zarr.ledger").read_bytes() == content
    solve()
    assert listed(Path()) == ["fit.zarr", "in.nc"]


def test_a_ledger_without_its_store_is_refused_and_a_store_without_its_ledger_starts_anew(
    solved: list[int],
) -> None:
    interrupt(4)
    shutil.move(".fit.zarr.partial", "away")
    with pytest.raises(WriteError, match=r"of which '.*ledger' is the ledger, is gone"):
        solve(resume=True)
    shutil.move("away", ".fit.zarr.partial")
    Path(".fit.zarr.ledger").unlink()
    solved.clear()
    solve(resume=True)
    assert sum(solved) == 120
    assert listed(Path()) == ["fit.zarr", "in.nc"]


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_run_that_ended_at_the_very_end_only_gets_its_name(
    monkeypatch: pytest.MonkeyPatch, solved: list[int], step: str
) -> None:
    want = whole("fit.zarr")
    place = zarr.put_in_place

    def stop(partial: Path, target: Path) -> None:
        if step == "after":
            place(partial, target)
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(zarr, "put_in_place", stop)
        with pytest.raises(StopError):
            solve()
    solved.clear()
    summary = solve(resume=True)
    assert solved == []
    assert summary.statuses["no_data"] == 1
    got = tree(Path("fit.zarr"))
    assert got.keys() == want.keys()
    assert {n for n in got if n != "zarr.json" and got[n] != want[n]} == set()
    assert listed(Path()) == ["fit.zarr", "in.nc", "other"]


def test_two_runs_at_the_same_time_are_refused() -> None:
    interrupt(3)
    before = tree(Path())
    with open_ledger(Path(".fit.zarr.ledger")):
        for resume in (True, False):
            with pytest.raises(WriteError, match=r"Another run is writing, .* Wait for its end"):
                solve(resume=resume)
    assert tree(Path()) == before
    solve(resume=True)
    assert listed(Path()) == ["fit.zarr", "in.nc"]


# ------------------------------------------------------------------------------- disks that fail


def failing(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Let something happen while the fourth chunk is written to the ledger."""
    add, calls = Ledger.add, 0

    def spoilt(self: Ledger, one: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            action()
        add(self, one)

    monkeypatch.setattr(Ledger, "add", spoilt)


def no_space() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_a_write_error_and_the_run_goes_on_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    want = whole("fit.zarr")
    with monkeypatch.context() as patch, dask.config.set(num_workers=1):
        failing(patch, no_space)
        with pytest.raises(
            WriteError, match=r"Could not write .*No space left.*with resume \(--re"
        ):
            solve()
    assert listed(Path()) == [*HIDDEN, "in.nc", "other"]
    solve(resume=True)
    got = tree(Path("fit.zarr"))
    assert {n for n in got if n != "zarr.json" and got[n] != want[n]} == set()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 300 kB, where that is allowed."""
    (tmp_path / "disk").mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(tmp_path / "disk")]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield tmp_path / "disk"
    subprocess.run(["umount", str(tmp_path / "disk")], check=True)


def test_a_disk_that_fills_up_leaves_nothing_that_looks_whole(small_disk: Path) -> None:
    make_cube((12, 60, 100)).to_netcdf("in.nc")
    run = {"chunks": {"y": 6, "x": 50}, "stats": ("residual",)}
    with pytest.raises(WriteError, match=r"Could not write .*No space left"):
        solve("disk/fit.zarr", **run)
    assert listed(small_disk) == HIDDEN
    subprocess.run(["mount", "-o", "remount,size=3m", str(small_disk)], check=True)
    solve("disk/fit.zarr", resume=True, **run)
    assert listed(small_disk) == ["fit.zarr"]
    lazy = make_cube((12, 60, 100)).chunk(y=6, x=50)["h"]
    want = lazy.lstsq.solve(DESIGN, stats="residual").compute()
    xr.testing.assert_equal(zarr.open(small_disk / "fit.zarr").load(), want)


@pytest.mark.parametrize("lost", ["out", "out/.fit.zarr.partial", "out/.fit.zarr.partial/coef"])
def test_a_target_that_is_removed_in_mid_run_is_a_write_error(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    Path("out").mkdir()
    failing(monkeypatch, lambda: shutil.rmtree(lost))
    with dask.config.set(num_workers=1), pytest.raises(WriteError, match="Could not write '") as e:
        solve("out/fit.zarr")
    assert not Path("out/fit.zarr").exists()
    assert ("directory is gone" in str(e.value)) is (lost == "out")


# --------------------------------------------------------------------------- processes that end

SHELL = [sys.executable, "-c", "from xr_lstsq.cli import main; main()", "solve", "in.nc"]
ASKED = ["--var", "h", "--design", DESIGN, "--chunks", "y=4,x=4", "-o"]


def end_in_the_middle(command: list[str], number: signal.Signals, chunks: int) -> str:
    """Start a process, end it once the ledger has so many chunks more, and return what it said."""
    ledger = Path(".fit.zarr.ledger")

    def lines() -> int:
        return ledger.read_bytes().count(b"\n") if ledger.exists() else 0

    before = lines()
    job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _ in range(6000):
        if lines() >= before + chunks or job.poll() is not None:
            break
        time.sleep(0.01)
    job.send_signal(number)
    said = job.communicate(timeout=60)[1]
    codes = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
    assert job.returncode == codes[number], said
    return said


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_process_that_is_ended_at_any_time_goes_on() -> None:
    make_cube((12, 60, 50)).to_netcdf("in.nc")
    command, going_on = [*SHELL, *ASKED, "fit.zarr"], [*SHELL, *ASKED, "fit.zarr", "--resume"]
    end_in_the_middle(command, signal.SIGKILL, 3)
    end_in_the_middle(going_on, signal.SIGKILL, 20)
    for number, word in ((signal.SIGTERM, "Terminated"), (signal.SIGINT, "Interrupted")):
        said = end_in_the_middle(going_on, number, 20)
        assert f"{word}; What is finished was kept, and a run with resume (--resume" in said
        assert "Traceback" not in said
        assert listed(Path()) == [*HIDDEN, "in.nc"]
    subprocess.run([*going_on, "-q"], check=True)
    assert listed(Path()) == ["fit.zarr", "in.nc"]
    subprocess.run([*SHELL, *ASKED, "whole.zarr", "-q"], check=True)
    got, want = tree(Path("fit.zarr")), tree(Path("whole.zarr"))
    histories = []
    for files in (got, want):
        top = json.loads(files.pop("zarr.json"))
        histories.append(top["attributes"].pop("history").partition("Z ")[2])
        files["zarr.json"] = json.dumps(top).encode()
    assert got == want
    assert histories[0] == histories[1]
