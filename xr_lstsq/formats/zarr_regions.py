"""Regions of a Zarr store: written and made durable, and read again."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import xarray as xr

from xr_lstsq.formats.directory import Folder, sync
from xr_lstsq.formats.regions import Block, Region
from xr_lstsq.formats.windows import Chunks
from xr_lstsq.formats.zarr_layout import Plan

__all__ = ["Writer"]


class Writer:
    """Writes regions into a store that has its metadata.

    Parameters
    ----------
    root : Path
        Directory of the store.
    parts : list
        The variables that are written by regions.
    """

    def __init__(self, root: Path, parts: Plan) -> None:
        import zarr

        self.root = root
        self.folder = Folder(root)
        self.parts = parts
        self.group = zarr.open_group(root, mode="r+", use_consolidated=False)
        # Version 2 does not say what a chunk without object holds where there is no fill value.
        with zarr.config.set({"array.write_empty_chunks": self.group.metadata.zarr_format == 2}):
            self.arrays: dict[str, Any] = {
                name: self.group[name] for names, _ in parts for name in names
            }

    def write(self, number: int, window: list[Block]) -> None:
        """Write blocks of a group of variables; they are durable on return."""
        self.folder.check()
        objects = [
            self._write_block(str(name), variable, region, self.parts[number][1])
            for region, block in window
            for name, variable in block.variables.items()
            if variable.size
        ]
        self.folder.check()
        folders: set[Path] = set()
        for path in objects:
            # A chunk that is nothing but the fill value has no object in version 3.
            if path.exists():
                sync(path)
            folders.update(parent for parent in path.parents if self.root in parent.parents)
        for folder in folders:
            if folder.exists():
                sync(folder)

    def _write_block(
        self, name: str, variable: xr.Variable, region: Region, chunks: Chunks
    ) -> Path:
        """Write a variable of a block, and return where its object is."""
        array = self.arrays[name]
        selection = tuple(region.window.get(dim, slice(None)) for dim in variable.dims)
        array[selection or ...] = variable.to_numpy().astype(array.dtype, copy=False)
        position = dict(zip(chunks, region.index, strict=True))
        key: str = array.metadata.encode_chunk_key(tuple(position.get(d, 0) for d in variable.dims))
        return self.root / name / key

    def stored(self, group: xr.Dataset) -> xr.Dataset:
        """Return variables as they are in the store, lazy."""
        read = xr.open_dataset(
            self.root, engine="zarr", chunks=None, decode_cf=False, consolidated=False
        )
        return xr.Dataset(
            {
                name: xr.Variable(variable.dims, read.variables[name]._data, variable.attrs)
                for name, variable in group.variables.items()
            }
        )

    def finish(self) -> None:
        """Consolidate the metadata, as xarray looks for them first, and make all durable."""
        import zarr

        version = self.group.metadata.zarr_format
        mark = "zarr.json" if version == 3 else ".zarray"
        lost = [name for name in self.arrays if not (self.root / name / mark).is_file()]
        self.folder.check()
        if lost:
            msg = f"'{self.root / lost[0]}' was removed while the store was written"
            raise OSError(msg)
        with warnings.catch_warnings():
            # The specification of version 3 has no word on it; without, xarray warns at opening.
            warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")
            zarr.consolidate_metadata(self.root, zarr_format=version)
        sync(self.root / (mark if version == 3 else ".zmetadata"))
        sync(self.root)
