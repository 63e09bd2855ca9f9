"""Run a function over the pixel chunks of numpy or dask arrays.

The function may be any that takes numpy arrays and returns a tuple of them; this file knows
nothing of what it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.base import is_dask_collection, optimize, persist, tokenize
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.utils import parse_bytes

from xr_lstsq.errors import ChunkError

__all__ = [
    "ONCE",
    "Operand",
    "Result",
    "call",
    "held",
    "is_lazy",
    "once",
    "parse_size",
    "refuse_cut",
    "run",
    "scheduler_name",
]

Function = Callable[..., tuple[Any, ...]]

ONCE = "lstsq-once"
"""How the tasks of `once` are called."""


@dataclass(frozen=True)
class Operand:
    """An array with a label for each of its axes; a value without axes goes to every block."""

    array: Any
    axes: tuple[Hashable, ...]


@dataclass(frozen=True)
class Result:
    """One array that the function returns: the labels of its axes and its dtype."""

    axes: tuple[Hashable, ...]
    dtype: np.dtype[Any]


def is_lazy(array: Any) -> bool:
    """Return whether `array` is a dask array."""
    return isinstance(array, da.Array)


def refuse_cut(array: Any, axis: int, label: Hashable, name: str) -> None:
    """Refuse a dask array that is cut along an axis of which every block needs all.

    Parameters
    ----------
    array : array
        numpy or dask.
    axis : int
        The axis.
    label, name : hashable, str
        What the axis and the array are called.

    Raises
    ------
    ChunkError
        When there is more than one chunk along the axis, apart from empty ones.
    """
    pieces = sum(1 for size in array.chunks[axis] if size) if is_lazy(array) else 1
    if pieces > 1:
        msg = (
            f"{label!r} of {name!r} is in {pieces} chunks, and a pixel needs all "
            f"{array.shape[axis]} samples in one block. "
            f"Call {name}.chunk({label}=-1), or pass rechunk=True."
        )
        raise ChunkError(msg)


def once(function: Callable[..., Any], *arguments: Any, lazy: bool) -> Any:
    """Call a function once for all blocks: now, or as one task of the graph when `lazy`.

    Returns
    -------
    object
        The function's value, or a dask array without axes that holds it; either is the array of
        an `Operand` without axes.
    """
    if not lazy:
        return function(*arguments)
    name = f"{ONCE}-{function.__name__.strip('_')}-{tokenize(function, *arguments)}"
    graph = delayed(function)(*arguments, dask_key_name=(name,)).dask
    # Not da.from_delayed: its alias would be a task of its own, whose value goes round each time
    layers, needed = dict(graph.layers), dict(graph.dependencies)
    layers[name], needed[name] = layers.pop((name,)), needed.pop((name,))
    return da.Array(HighLevelGraph(layers, needed), name, (), dtype=object)


def held(lazy: Any) -> Any:
    """Return a lazy collection in which what `once` calls is done, however often it is computed.

    A compute of a part calls them anew otherwise. The values are kept where blocks are computed:
    in this process, or on a worker, from which each other worker gets them once.

    Parameters
    ----------
    lazy : object
        Any collection of dask; others are returned as they are.
    """
    graph = lazy.__dask_graph__() if is_dask_collection(lazy) else None
    if not isinstance(graph, HighLevelGraph):
        return lazy
    names = [name for name in graph.layers if str(name).startswith(f"{ONCE}-")]
    values = persist(*(da.Array(graph, name, (), dtype=object) for name in names))
    done = {value.name: MaterializedLayer(dict(value.dask)) for value in values}
    needed = dict(graph.dependencies) | {name: set() for name in done}
    rebuild, arguments = lazy.__dask_postpersist__()
    return rebuild(HighLevelGraph({**graph.layers, **done}, needed), *arguments)


def call(function: Callable[..., Any], cube: Operand, others: Mapping[str, Operand]) -> Any:
    """Call ``function(cube, **others)`` now, on all of the arrays together.

    Where any of them is lazy the call is a task of dask, so that on a cluster a worker runs it.
    """
    arrays = [operand.array for operand in (cube, *others.values())]
    if any(map(is_lazy, arrays)):
        # First optimised as arrays: a piece of a chunk of a file is then read without the rest
        arrays = list(optimize(*arrays))
        function = delayed(function, pure=False)
    value = function(arrays[0], **dict(zip(others, arrays[1:], strict=True)))
    return value.compute() if isinstance(value, Delayed) else value


def run(
    function: Function,
    cube: Operand,
    others: Mapping[str, Operand],
    results: Sequence[Result],
    *,
    whole: Mapping[Hashable, int],
) -> tuple[Any, ...]:
    """Call ``function(cube, **others)`` on every pixel chunk.

    Parameters
    ----------
    function : callable
        Takes the numpy block of the cube and, by keyword, those of the others; returns a tuple
        with one numpy array for each of `results`. It must pickle where processes are used.
    cube : Operand
        The array that decides on the chunks. Its chunks are joined along `whole` axes (see
        `refuse_cut`) and never changed otherwise.
    others : mapping of str to Operand
        Whatever else a block needs. Arrays are cut as the cube is cut.
    results : sequence of Result
        What the function returns. Axes are pixel axes of the cube or keys of `whole`.
    whole : mapping of axis label to int
        Axes of which every block has all, with their sizes.

    Returns
    -------
    tuple of arrays
        numpy when every operand is in memory, else dask, with one task a chunk that makes all
        results and one that picks each.
    """
    if not any(is_lazy(operand.array) for operand in (cube, *others.values())):
        return function(cube.array, **{key: operand.array for key, operand in others.items()})
    main = _as_dask(cube, others)
    main = main.rechunk({cube.axes.index(axis): -1 for axis in whole if axis in cube.axes})
    pixels = tuple(axis for axis in cube.axes if axis not in whole)
    chunks = dict(zip(cube.axes, main.chunks, strict=True))
    arguments: list[Any] = [main, cube.axes]
    for operand in others.values():
        arguments += [_aligned(operand, chunks), operand.axes]
    blocks = da.blockwise(
        _call,
        pixels,
        *arguments,
        function=function,
        names=tuple(others),
        token="lstsq-solve",
        dtype=object,
        meta=np.empty((0,) * len(pixels), dtype=object),
        align_arrays=False,
        concatenate=False,
    )
    return tuple(
        da.blockwise(
            _pick,
            result.axes,
            blocks,
            pixels,
            index=index,
            token="lstsq-pick",
            new_axes={axis: whole[axis] for axis in result.axes if axis in whole},
            dtype=result.dtype,
            meta=np.empty((0,) * len(result.axes), dtype=result.dtype),
            align_arrays=False,
        )
        for index, result in enumerate(results)
    )


def scheduler_name() -> str:
    """Return which dask scheduler a compute would use now.

    Returns
    -------
    str
        ``"threads"``, ``"processes"``, ``"sync"``, ``"distributed"`` or ``"other"``.
    """
    get = dask.base.get_scheduler()
    if get is None:
        return "threads"
    module = getattr(get, "__module__", "")
    if module.startswith("distributed"):
        return "distributed"
    known = {"dask.threaded": "threads", "dask.multiprocessing": "processes", "dask.local": "sync"}
    return known.get(module, "other")


def parse_size(size: int | str) -> int:
    """Return bytes from a number or from text such as ``"2GB"``.

    Raises
    ------
    ValueError
        When it cannot be read or is not positive.
    """
    try:
        value = int(parse_bytes(size))
    except (ValueError, TypeError) as error:
        msg = f"max_memory={size!r} is not a size. Pass bytes, or text such as '2GB'."
        raise ValueError(msg) from error
    if value <= 0:
        msg = f"max_memory={size!r} is not positive. Pass bytes, or text such as '2GB'."
        raise ValueError(msg)
    return value


def _as_dask(cube: Operand, others: Mapping[str, Operand]) -> Any:
    """Return the cube as dask; one in memory is cut as the lazy operands are."""
    if is_lazy(cube.array):
        return cube.array
    cuts: dict[Hashable, Any] = {}
    for operand in others.values():
        if is_lazy(operand.array):
            for axis, chunks in zip(operand.axes, operand.array.chunks, strict=True):
                cuts.setdefault(axis, chunks)
    return da.from_array(
        cube.array, chunks=tuple(cuts.get(axis, -1) for axis in cube.axes), name=False
    )


def _aligned(operand: Operand, chunks: Mapping[Hashable, tuple[int, ...]]) -> Any:
    """Return an operand as dask, cut as the cube is; axes that the cube lacks are kept whole."""
    array = operand.array
    if not operand.axes:
        return array if is_lazy(array) else _wrap(array)
    wanted = tuple(chunks.get(axis, -1) for axis in operand.axes)
    if is_lazy(array):
        return array.rechunk(wanted)
    return da.from_array(array, chunks=wanted, name=False)


def _wrap(value: Any) -> Any:
    """Return a value as a dask array without axes."""
    return da.from_delayed(delayed(value), shape=(), dtype=object)


def _call(*blocks: Any, function: Function, names: tuple[str, ...]) -> tuple[Any, ...]:
    """Call the function on the blocks of one chunk."""
    first, *rest = (_only(block) for block in blocks)
    return function(first, **dict(zip(names, rest, strict=True)))


def _only(block: Any) -> Any:
    """Return the one block inside the lists that dask makes of axes without chunks."""
    while isinstance(block, list):
        (block,) = block
    return block


def _pick(blocks: tuple[Any, ...], *, index: int) -> Any:
    """Return one of the arrays that a chunk's task made."""
    return blocks[index]
