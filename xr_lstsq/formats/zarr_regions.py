"""Regions of a Zarr store: written and made durable, and read again."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Collection, Hashable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import xarray as xr

from xr_lstsq import clock
from xr_lstsq.formats.directory import Folder, Gate, sync
from xr_lstsq.formats.regions import Region
from xr_lstsq.formats.target import disk_errors

__all__ = ["Writer"]


@functools.lru_cache(maxsize=64)
def _array(root: Path, name: str, _identity: object) -> Any:
    """Open an array once in a process; a store that takes the place of another is another."""
    import zarr

    array = zarr.open_array(root / name, mode="r+")
    # Version 2 does not say what a chunk without object holds where there is no fill value.
    is_old = array.metadata.zarr_format == 2
    return array.with_config({"order": "C", "write_empty_chunks": is_old})


class Writer:
    """Writes regions into a store that has its metadata, from any thread or process.

    What `write` has written is durable when `settle` has made its names so.

    Parameters
    ----------
    root : Path
        Directory of the store.
    target : Path
        What it will be called, for errors.
    left : str
        What is left of it when writing fails, for errors.
    """

    def __init__(self, root: Path, target: Path, left: str) -> None:
        self.root, self.target, self.left = root, target, left
        self.folder = Folder(root)
        self.gate: Gate | None = Gate()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs; the gate keeps threads of this one."""
        return {**self.__dict__, "gate": None}

    def write(
        self, names: Collection[Hashable] | None, region: Region, block: xr.Dataset
    ) -> xr.Dataset:
        """Write the variables of a region.

        Parameters
        ----------
        names : collection of str, optional
            Variables that are returned. None returns all.
        region : Region
            Where they are.
        block : xarray.Dataset
            The variables, in memory.
        """
        with (
            clock.stage("write"),
            disk_errors(self.target, self.left),
            self.gate or nullcontext(),
        ):
            self.folder.check()
            objects = [
                self._write_block(str(name), variable, region)
                for name, variable in block.variables.items()
                if variable.size
            ]
            self.folder.check()
            for path in objects:
                # A chunk that is nothing but the fill value has no object in version 3.
                if path.exists():
                    sync(path)
        return block if names is None else block[[one for one in names if one in block]]

    def _write_block(self, name: str, variable: xr.Variable, region: Region) -> Path:
        """Write a variable of a block, and return where its object is."""
        array = _array(self.root, name, self.folder.identity)
        array[region.place(variable.dims) or ...] = variable.to_numpy().astype(
            array.dtype, copy=False
        )
        return self._object(name, variable, region)

    def _object(self, name: str, variable: xr.Variable, region: Region) -> Path:
        """Return where a chunk of a variable is."""
        array = _array(self.root, name, self.folder.identity)
        key: str = array.metadata.encode_chunk_key(region.position(variable.dims))
        return self.root / name / key

    def settle(self, group: xr.Dataset, window: Iterable[Region]) -> None:
        """Make the names of objects durable: those of a window share most of their folders.

        Parameters
        ----------
        group : xarray.Dataset
            The variables that were written.
        window : iterable of Region
            Which regions.
        """
        folders: set[Path] = set()
        with clock.stage("write"), disk_errors(self.target, self.left):
            for region in window:
                for name, variable in group.variables.items():
                    path = self._object(str(name), variable, region)
                    folders.update(one for one in path.parents if self.root in one.parents)
            for folder in folders:
                if folder.exists():
                    sync(folder)
            self.folder.check()

    def close(self) -> None:
        """Let no thread of this process write any more, and wait for those who do."""
        if self.gate is not None:
            self.gate.close()

    def stored(self, group: xr.Dataset, names: Collection[Hashable] | None) -> xr.Dataset:
        """Return variables as they are in the store, lazy; of `names` only where it is given."""
        read = xr.open_dataset(
            self.root, engine="zarr", chunks=None, decode_cf=False, consolidated=False
        )
        return xr.Dataset(
            {
                name: xr.Variable(variable.dims, read.variables[name]._data, variable.attrs)
                for name, variable in group.variables.items()
                if names is None or name in names
            }
        )

    def finish(self, names: Iterable[str]) -> None:
        """Consolidate the metadata, as xarray looks for them first, and make all durable.

        Parameters
        ----------
        names : iterable of str
            Variables that must be there.
        """
        import zarr

        version = zarr.open_group(self.root, mode="r", use_consolidated=False).metadata.zarr_format
        mark = "zarr.json" if version == 3 else ".zarray"
        lost = [name for name in names if not (self.root / name / mark).is_file()]
        self.folder.check()
        if lost:
            msg = f"'{self.root / lost[0]}' was removed while the store was written"
            raise OSError(msg)
        with warnings.catch_warnings():
            # The specification of version 3 has no word on it; without, xarray warns at opening.
            warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")
            zarr.consolidate_metadata(self.root, zarr_format=version)
        sync(self.root / (mark if version == 3 else ".zmetadata"))
        for folder, _, _ in os.walk(self.root):
            sync(Path(folder))
