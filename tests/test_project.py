"""The project's own promises: one version, one set of dependencies, one set of commands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import xr_lstsq

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "xr_lstsq"
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
README = (ROOT / "README.md").read_text("utf-8")

# What conda-forge calls a distribution; everything else has the same name there, in lower case.
CONDA_NAMES = {
    "dask[array]": "dask-core",
    "matplotlib": "matplotlib-base",
    "torch": "pytorch",
}
# Needed to install the package itself into the conda environment.
ONLY_IN_CONDA = {"python", "pip"}

LONGER_THAN_300_LINES: dict[str, str] = {}
"""File below xr_lstsq -> why it has one job in spite of its length."""


def shell_lines(page: str) -> list[str]:
    """Return the lines of all shell code blocks of a page."""
    blocks = re.findall(r"^```shell\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def required() -> dict[str, SpecifierSet]:
    """Return what pyproject.toml asks for with every extra, by its name on conda-forge."""
    project = SETTINGS["project"]
    lines = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        lines += extra
    found = {}
    for requirement in map(Requirement, lines):
        if requirement.name == project["name"]:
            continue
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        name = CONDA_NAMES.get(requirement.name + extras, requirement.name.lower())
        found[name] = requirement.specifier
    return found


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )


def test_version_has_one_source() -> None:
    declared = SETTINGS["project"]["version"]
    assert xr_lstsq.__version__ == version("xr_lstsq") == declared
    repeated = [
        path.relative_to(ROOT) for path in PACKAGE.rglob("*.py") if declared in path.read_text()
    ]
    assert not repeated


def test_importing_the_package_imports_no_torch() -> None:
    done = python("import sys, xr_lstsq; print('torch' in sys.modules)")
    assert (done.stdout.strip(), done.returncode) == ("False", 0), done.stderr


def test_conda_environment_agrees_with_pyproject() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    listed = {r.name: r.specifier for r in map(Requirement, environment["dependencies"])}
    assert listed.pop("python") == SpecifierSet(SETTINGS["project"]["requires-python"])
    assert {n: s for n, s in listed.items() if n not in ONLY_IN_CONDA} == required()
    assert environment["channels"] == ["conda-forge"]


@pytest.mark.parametrize("extra", ["demo", "test"])
def test_readme_command_stands_once_and_is_read_from_there_by_ci(extra: str) -> None:
    found = [line for line in shell_lines(README) if f'".[{extra}]"' in line]
    assert len(found) == 1
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert f"""readme_command '".[{extra}]"'""" in ci
    assert found[0] not in ci


def test_docs_command_is_the_same_everywhere() -> None:
    for page in ("README.md", "docs/contributing.md"):
        found = [x for x in shell_lines((ROOT / page).read_text("utf-8")) if "sphinx-build" in x]
        assert found == [
            'pip install -e ".[docs]" && sphinx-build -W --keep-going docs docs/_build/html'
        ]
    assert "sphinx-build -W --keep-going" in (ROOT / ".ci" / "run").read_text("utf-8")


def test_status_table_of_the_readme_is_that_of_the_package() -> None:
    from xr_lstsq.outputs import STATUS

    rows = re.findall(r"^\| (\d) `(\w+)` \|", README, flags=re.MULTILINE)
    assert {name: int(code) for code, name in rows} == STATUS


def test_import_contracts_hold() -> None:
    lint = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if lint is None:
        pytest.skip("import-linter is not installed; it comes with the extra 'dev'")
    done = subprocess.run(
        [lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_layers_on_the_architecture_page_are_those_that_are_checked() -> None:
    contracts = SETTINGS["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    assert "```text\n" + "\n".join(layers) + "\n```" in page


def test_architecture_page_names_every_room() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"^\| `(\w+)(?:\.py|/)` \|", page, flags=re.MULTILINE))
    rooms = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    rooms |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert named == rooms


def test_every_example_runs() -> None:
    examples = sorted((ROOT / "examples").glob("*.py"))
    assert examples
    for example in examples:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(example)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_every_file_has_one_job() -> None:
    long = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if len(path.read_text("utf-8").splitlines()) > 300
    }
    assert long == set(LONGER_THAN_300_LINES)


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils", "helpers", "core", "common", "misc", "base"}
    assert not [path for path in PACKAGE.rglob("*.py") if path.stem in drawers]


def test_package_ships_its_types_and_its_licence() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
