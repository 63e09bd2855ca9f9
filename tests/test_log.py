from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner, Result

from xr_lstsq import clock, runs
from xr_lstsq.cli import main
from xr_lstsq.runs.events import plain

KEYS = {
    "start": {
        "pixels",
        "program",
        "source",
        "output",
        "arguments",
        "chunks",
        "threads",
        "budget",
    },
    "window": {"pixels", "done", "total", "seconds", "stages"},
    "end": {"pixels", "statuses", "seconds", "stages", "peak_bytes"},
    "error": {"error", "message", "done", "seconds"},
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).normal(size=(12, 40, 30)).astype("f4")
    values[:, 0, 0] = np.nan
    time = np.datetime64("2020-01-01", "ns") + np.arange(12) * np.timedelta64(30, "D")
    cube = xr.DataArray(values, {"time": time}, ("time", "y", "x"), name="h")
    cube.to_netcdf("in.nc")


def solve(*arguments: str) -> Result:
    command = ["solve", "in.nc", "-o", "fit.nc", "--design", "polynomial(1)", *arguments]
    return CliRunner().invoke(main, command)


def records(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    for record in found:
        assert set(record) == {"event", "time", *KEYS[record["event"]]}
        assert datetime.fromisoformat(record["time"]).utcoffset() is not None
    return found


def test_every_event_is_a_line_of_the_log() -> None:
    result = solve("--log-json", "log.jsonl", "--chunks", "y=4", "--nodata", "nan")
    assert result.exit_code == 0, result.output
    start, *windows, end = records(Path("log.jsonl").read_text())
    assert start["event"] == "start"
    assert start["pixels"] == 1200
    assert start["arguments"]["design"] == "polynomial(1)"
    assert start["arguments"]["nodata"] == ["nan"]
    assert start["chunks"] == {"y": 4, "x": 30}
    assert start["threads"] >= 1
    assert {one["event"] for one in windows} == {"window"}
    assert sum(one["pixels"] for one in windows) == 1200
    assert [one["done"] for one in windows] == np.cumsum([w["pixels"] for w in windows]).tolist()
    assert end["event"] == "end"
    assert end["statuses"]["no_data"] == 1
    assert end["peak_bytes"] > 1e8
    for stage in ("read", "solve", "write"):
        spent = sum(one["stages"].get(stage, 0.0) for one in windows)
        assert 0 < spent <= end["stages"][stage] + 1e-3
    assert sum(one["seconds"] for one in windows) <= end["seconds"]


def test_a_log_on_standard_output_stands_alone_there_and_a_file_is_added_to() -> None:
    result = solve("--log-json", "-")
    assert [one["event"] for one in records(result.stdout)] == ["start", "window", "end"]
    assert "1199 of 1200 pixels solved" in result.stderr
    for _ in range(2):
        solve("--log-json", "log.jsonl", "--quiet")
    assert [one["event"] for one in records(Path("log.jsonl").read_text())].count("end") == 2


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("--var", "nope"), "LabelError", "var='nope' is not a variable"),
        (("--max-memory", "100MB"), "ValueError", "max_memory is 100 MB"),
        (("--stats", "rs"), "ValueError", "stats has"),
    ],
)
def test_an_error_is_the_last_event(arguments: tuple[str, ...], error: str, message: str) -> None:
    result = solve(*arguments, "--log-json", "log.jsonl")
    assert result.exit_code == 2
    (record,) = records(Path("log.jsonl").read_text())
    assert (record["event"], record["error"]) == ("error", error)
    assert message in record["message"]


def test_a_log_that_cannot_be_written_is_an_error_before_the_work() -> None:
    result = solve("--log-json", "nowhere/log.jsonl")
    assert result.exit_code == 1
    assert "nowhere/log.jsonl" in result.stderr
    assert not Path("fit.nc").exists()


def test_stages_add_up_to_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from xr_lstsq.device.batch import BatchSolver

    original = BatchSolver.run

    def slow(*args: Any, **kwargs: Any) -> Any:
        time.sleep(0.1)
        return original(*args, **kwargs)

    monkeypatch.setattr(BatchSolver, "run", slow)
    summary = runs.solve_file("in.nc", "fit.nc", "polynomial(1)", chunks={"y": 10})
    assert 0.4 <= summary.stages["solve"] < 4
    assert summary.stages["read"] + summary.stages["copy"] < 0.4
    assert set(summary.stages) == {"read", "copy", "solve", "write"}


def test_time_is_counted_also_where_the_work_fails() -> None:
    before = clock.totals().get("test", 0.0)

    def work() -> None:
        with clock.stage("test"):
            time.sleep(0.01)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert clock.totals()["test"] - before >= 0.01


def test_arguments_are_told_as_plain_data() -> None:
    term = xr.DataArray([1.0], dims="x")
    given = {"a": None, "b": (), "c": (1.0, float("inf")), "d": term, "e": {"y": 2}, "f": True}
    want = {"c": [1.0, "inf"], "d": "<DataArray>", "e": {"y": 2}, "f": True}
    assert plain(given) == want
    json.dumps(plain(given), allow_nan=False)
