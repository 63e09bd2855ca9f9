"""Zarr stores: open a cube lazily, write a Dataset region by region, go on where a run stopped."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

import xarray as xr

from xr_lstsq.errors import WriteError
from xr_lstsq.formats import zarr_layout
from xr_lstsq.formats.cf import dated
from xr_lstsq.formats.directory import put_in_place, refuse_inside, resolve_folder, sync_tree
from xr_lstsq.formats.ledger import Ledger, open_ledger
from xr_lstsq.formats.regions import Block, Region, each, regions
from xr_lstsq.formats.target import disk_errors, refuse_type, sources_of
from xr_lstsq.formats.windows import Chunks, at_once
from xr_lstsq.formats.zarr_read import files, need_zarr, open
from xr_lstsq.formats.zarr_regions import Writer

__all__ = ["check_target", "files", "open", "write"]

NOTHING = "Nothing was kept of the store"
KEPT = "What is finished was kept, and a run with resume (--resume in the shell) goes on from there"


def check_target(path: str | os.PathLike[str], sources: Iterable[str | os.PathLike[str]]) -> Path:
    """Return the absolute path of a store to write, or say why it cannot be written there.

    Parameters
    ----------
    path : str or path-like
        The target, a directory.
    sources : iterable of str or path-like
        Files and stores that are read, which the target may not be, hold or be inside of.

    Raises
    ------
    WriteError
        When its parent is missing, or it is a file or a directory that holds something else.
    ValueError
        When it would replace one of `sources`.
    ImportError
        When zarr is not installed.
    """
    need_zarr()
    target = resolve_folder(path, zarr_layout.MARKS)
    refuse_inside(target, sources)
    return target


def write(
    dataset: xr.Dataset,
    path: str | os.PathLike[str],
    *,
    sources: Iterable[str | os.PathLike[str]] = (),
    store: Literal["float32", "float64"] | None = None,
    history: str | None = None,
    on_block: Callable[[xr.Dataset], None] | None = None,
    shown: Collection[Hashable] | None = None,
    resume: bool = False,
    fingerprint: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write a Dataset to a Zarr store, region by region, and rename it when it is whole.

    Parameters
    ----------
    dataset : xarray.Dataset
        Eager or lazy. Lazy variables that are cut into the same chunks are computed together, a
        few chunks at a time, so whatever they share is computed once. Each chunk is written where
        it is computed: by a thread of this process, or by a worker of a cluster, which must see
        the same directory.
    path : str or path-like
        Target, a directory. An existing store is replaced, at the very end.
    sources : iterable of str or path-like
        Files from which `dataset` is computed; the target may not hold one of them. Files named
        in ``encoding["source"]`` of the dataset and its variables are refused as well.
    store : {"float32", "float64"}, optional
        Type of float data variables in the store; None keeps their own.
    history : str, optional
        Program and arguments, for a new line of the ``history`` attribute.
    on_block : callable, optional
        Called with each block (a Dataset without coordinates) once it is written, and with those
        that an earlier run has written, which are read when their values are asked for.
    shown : collection of str, optional
        Variables that `on_block` gets; they travel from the worker that has written them. None
        gives it all.
    resume : bool
        Go on with a run that was interrupted, where there is one. It needs `fingerprint`.
    fingerprint : mapping, optional
        JSON data that tell this run from any other: arguments, and names, sizes and times of the
        inputs. With it an interrupted run can be resumed; without it nothing is left of one.

    Returns
    -------
    list of Path
        The store.

    Raises
    ------
    WriteError
        When the target cannot be created, the disk takes no more, another run is writing, or
        what the ledger speaks of is gone.
    ValueError
        When the target holds the source, the dataset holds what Zarr cannot, or the run to
        resume has another fingerprint.
    ChunkError
        When the chunks are uneven.
    ImportError
        When zarr is not installed.

    Notes
    -----
    Writes to ``.NAME.XXXXXXXX.partial`` beside the target. A run with a fingerprint writes to
    ``.NAME.partial``, and keeps in ``.NAME.ledger`` which regions are durable; both are gone when
    the target is there, which then equals, bit for bit, that of an uninterrupted run that began
    when the first one did. Each region is one storage chunk of each variable, and is gone from
    memory when it is written; the ledger learns of them a window at a time, eight for each thread.
    Floats have NaN as their fill value; the encoding that variables bring along is dropped except
    grid mapping and bounds. The version of the format is zarr's ``default_zarr_format``; the
    metadata are consolidated.
    """
    refuse_type(store)
    if resume and fingerprint is None:
        msg = "resume=True needs fingerprint, by which the run that is resumed is known."
        raise ValueError(msg + " Give the arguments and inputs of the run as a dict.")
    target = check_target(path, [*sources, *sources_of(dataset)])
    zarr_layout.refuse_unstorable(dataset)
    line = dated(history)
    if fingerprint is None:
        _write_at_once(dataset, target, store, line, on_block, shown)
    else:
        _write_resumable(dataset, target, store, line, on_block, shown, fingerprint, resume=resume)
    return [Path(path)]


def _write_at_once(
    dataset: xr.Dataset,
    target: Path,
    store: str | None,
    history: str | None,
    on_block: Callable[[xr.Dataset], None] | None,
    shown: Collection[Hashable] | None,
) -> None:
    """Write a store of which nothing is left when it fails."""
    root = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    parts = zarr_layout.plan(dataset)
    try:
        with disk_errors(target, NOTHING):
            zarr_layout.create(dataset, root, parts, store, history)
            sync_tree(root)
        writer = Writer(root, target, NOTHING)
        with closing(writer):
            for names, chunks in parts:
                group = xr.Dataset({name: dataset.variables[name] for name in names})
                for window in _written(writer, group, chunks, None, shown):
                    _show(window, on_block)
        with disk_errors(target, NOTHING):
            writer.finish(name for names, _ in parts for name in names)
            put_in_place(root, target)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise


def _write_resumable(
    dataset: xr.Dataset,
    target: Path,
    store: str | None,
    history: str | None,
    on_block: Callable[[xr.Dataset], None] | None,
    shown: Collection[Hashable] | None,
    fingerprint: Mapping[str, Any],
    *,
    resume: bool,
) -> None:
    """Write a store with a ledger, and leave what is done when it fails."""
    root = target.with_name(f".{target.name}.partial")
    record = target.with_name(f".{target.name}.ledger")
    parts = zarr_layout.plan(dataset)
    own = {**fingerprint, "output": zarr_layout.layout(dataset, parts, store)}
    with ExitStack() as stack:
        with disk_errors(target, KEPT):
            ledger = stack.enter_context(open_ledger(record))
            begun = resume and ledger.read()
            if begun:
                ledger.refuse_other(json.loads(json.dumps(own)))
        try:
            with disk_errors(target, KEPT):
                if not begun:
                    ledger.clear()
                    shutil.rmtree(root, ignore_errors=True)
                    ledger.start(own, history)
                _prepare(dataset, root, target, parts, store, ledger)
            # A run that ended between its last two steps has put the store in place already.
            is_placed = "all" in ledger.done and not root.exists()
            writer = Writer(target if is_placed else root, target, KEPT)
            with closing(writer):
                for number, (names, chunks) in enumerate(parts):
                    group = xr.Dataset({name: dataset.variables[name] for name in names})
                    _fill(writer, number, group, chunks, ledger, on_block, shown)
            with disk_errors(target, KEPT):
                if not is_placed:
                    writer.finish(name for names, _ in parts for name in names)
                    ledger.add(["all"])
                    put_in_place(root, target)
                ledger.remove()
        except BaseException as error:
            if not any(isinstance(done, tuple) for done in ledger.done):
                shutil.rmtree(root, ignore_errors=True)
                record.unlink(missing_ok=True)
            elif not isinstance(error, WriteError):  # which says so itself
                error.add_note(f"{KEPT}.")
            raise


def _prepare(
    dataset: xr.Dataset,
    root: Path,
    target: Path,
    parts: zarr_layout.Plan,
    store: str | None,
    ledger: Ledger,
) -> None:
    """Make the store without its regions, or make ready the one of an interrupted run."""
    if "metadata" not in ledger.done:
        shutil.rmtree(root, ignore_errors=True)
        zarr_layout.create(dataset, root, parts, store, ledger.history)
        sync_tree(root)
        ledger.add(["metadata"])
    elif root.is_dir():
        # What zarr was writing when the run was killed, and had not given its name yet.
        for stray in root.rglob("*.partial"):
            if stray.is_file():
                stray.unlink()
    elif "all" not in ledger.done:
        msg = f"'{root}', of which '{ledger.path}' is the ledger, is gone, so nothing is resumed."
        raise WriteError(msg + f" Leave out resume to start '{target.name}' anew.")


def _fill(
    writer: Writer,
    number: int,
    group: xr.Dataset,
    chunks: Chunks,
    ledger: Ledger,
    on_block: Callable[[xr.Dataset], None] | None,
    shown: Collection[Hashable] | None,
) -> None:
    """Write the regions of a group that the ledger does not have, and show those that it has."""
    missing = []
    stored = None
    for region in regions(chunks):
        if (number, *region.index) not in ledger.done:
            missing.append(region)
        elif on_block is not None:
            stored = writer.stored(group, shown) if stored is None else stored
            on_block(stored.isel(region.window, missing_dims="ignore"))
    for window in _written(writer, group, chunks, missing, shown):
        writer.settle(group, (region for region, _ in window))
        with disk_errors(writer.target, KEPT):
            ledger.add((number, *region.index) for region, _ in window)
        _show(window, on_block)


def _written(
    writer: Writer,
    group: xr.Dataset,
    chunks: Chunks,
    wanted: list[Region] | None,
    shown: Collection[Hashable] | None,
) -> Iterator[list[Block]]:
    """Write regions where they are computed; yield what is shown of them, window by window."""
    write = partial(writer.write, shown)
    return each(group, chunks, write, wanted, name="write", at_once=at_once())


def _show(window: list[Block], on_block: Callable[[xr.Dataset], None] | None) -> None:
    if on_block is not None:
        for _, block in window:
            on_block(block)
