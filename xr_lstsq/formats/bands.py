"""Bands of raster files: what their headers say, and their values with gaps as NaN."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xr_lstsq.errors import DtypeError
from xr_lstsq.formats.grid import Grid
from xr_lstsq.formats.target import reason

if TYPE_CHECKING:
    from rasterio.io import DatasetReader

__all__ = ["Band", "Header", "probe", "read", "require_rasterio"]


# Filters of warnings are those of the whole process, so one thread at a time changes them.
_FILTERS = threading.Lock()


def require_rasterio() -> None:
    """Raise an ImportError that says what to install when rasterio or rioxarray is missing."""
    try:
        import rasterio  # noqa: F401 - only whether it is there
        import rioxarray  # noqa: F401
    except ImportError as error:
        msg = "GeoTIFF files need rasterio and rioxarray."
        raise ImportError(f'{msg} Install them: pip install "xr_lstsq[geotiff]"') from error


@dataclass(frozen=True)
class Band:
    """One band of a file.

    Attributes
    ----------
    path : str
        The file.
    stamp : tuple of int
        Its size and time of change, by which another file of that name is known.
    shape : tuple of int
        Rows and columns.
    number : int
        From 1.
    dtype : str
        Of the numbers in the file.
    is_masked : bool
        Whether it has nodata, a mask or an alpha band.
    is_placed : bool
        Whether the file has a transform.
    scale, offset : float
        What stands in the file is ``(value - offset) / scale``.
    description, units : str
        "" where there is none.
    wavelength : float
        NaN where there is none.
    """

    path: str
    stamp: tuple[int, ...]
    shape: tuple[int, int]
    number: int
    dtype: str
    is_masked: bool
    is_placed: bool = True
    scale: float = 1.0
    offset: float = 0.0
    description: str = ""
    units: str = ""
    wavelength: float = np.nan

    @property
    def is_scaled(self) -> bool:
        """Whether the numbers in the file are not the values."""
        return (self.scale, self.offset) != (1.0, 0.0)

    @property
    def decoded(self) -> np.dtype[Any]:
        """The dtype that holds the values: of the file itself unless it is masked or scaled."""
        dtype = np.dtype(self.dtype)
        if self.is_scaled:
            return np.dtype(np.float64)
        return np.promote_types(dtype, np.float32) if self.is_masked else dtype


@dataclass(frozen=True, eq=False)
class Header:
    """What a file says before it is read.

    Attributes
    ----------
    grid : Grid
        Transform, CRS and shape.
    bands : tuple of Band
        All bands but those of transparency.
    block : tuple of int
        Rows and columns that are stored together.
    wavelength_units : str
        "" where not known.
    """

    grid: Grid
    bands: tuple[Band, ...]
    block: tuple[int, int]
    wavelength_units: str


def probe(path: str) -> Header:
    """Read the header of a raster file.

    Raises
    ------
    DtypeError
        For complex numbers.
    ValueError
        For a file without bands, or placed by ground control points.
    OSError
        When it cannot be read.
    """
    from rasterio.enums import ColorInterp, MaskFlags

    with _opened(path) as file:
        if not file.count:
            more = f" Open one of its parts, such as '{p[0]}'." if (p := file.subdatasets) else ""
            raise ValueError(f"'{path}' holds no bands.{more}")
        if any("complex" in dtype for dtype in file.dtypes):
            msg = f"'{path}' holds complex numbers ({file.dtypes[0]}), and real ones are fitted."
            raise DtypeError(msg + " Write its phase or amplitude to a file first.")
        if file.gcps[0]:
            msg = f"'{path}' is placed by ground control points, which a cube cannot keep."
            raise ValueError(msg + " Warp it to a grid first: gdalwarp IN.tif OUT.tif")
        stamp = _stamp(path)
        bands = []
        for index, number in enumerate(file.indexes):
            if file.colorinterp[index] == ColorInterp.alpha:
                continue
            nodata = file.nodatavals[index]
            flags = file.mask_flag_enums[index]
            # NaN is a gap as it is.
            plain = flags == [MaskFlags.all_valid] or (
                flags == [MaskFlags.nodata] and nodata is not None and np.isnan(nodata)
            )
            bands.append(
                Band(
                    path,
                    stamp,
                    file.shape,
                    number,
                    file.dtypes[index],
                    is_masked=not plain,
                    is_placed=not file.transform.is_identity,
                    scale=file.scales[index],
                    offset=file.offsets[index],
                    description=file.descriptions[index] or "",
                    units=file.units[index] or "",
                    wavelength=_wavelength(file, number)[0],
                )
            )
        grid = Grid(file.transform, file.crs, *file.shape)
        units = _wavelength(file, file.indexes[0])[1]
        return Header(grid, tuple(bands), file.block_shapes[0], units)


def read(bands: Sequence[Band], rows: slice, columns: slice, out: np.ndarray[Any, Any]) -> None:
    """Read a window of bands of one file.

    Parameters
    ----------
    bands : sequence of Band
        Bands of one file.
    rows, columns : slice
        The window.
    out : ndarray, (len(bands), rows, columns)
        Takes the values: scaled, and NaN where they are masked.

    Raises
    ------
    OSError
        When the file cannot be read, or is not the one that was opened; it names the window.
    """
    path, numbers = bands[0].path, [band.number for band in bands]
    window = ((rows.start, rows.stop), (columns.start, columns.stop))
    try:
        with _opened(path, bands[0].is_placed) as file:
            _refuse_changed(file, bands[0])
            values = file.read(numbers, window=window)
            masked = [index for index, band in enumerate(bands) if band.is_masked]
            valid = file.read_masks([numbers[i] for i in masked], window=window) if masked else ()
    except OSError as error:
        msg = f"Reading rows {rows.start} to {rows.stop - 1} and columns {columns.start} to "
        msg += f"{columns.stop - 1} of '{path}' failed ({reason(error.__cause__ or error)})."
        raise OSError(msg + " It may be damaged; `gdalinfo -checksum` reads all of it.") from error
    for index, band in enumerate(bands):
        if band.is_scaled:
            np.multiply(values[index], band.scale, out=out[index], dtype=np.float64)
            out[index] += band.offset
        else:
            out[index] = values[index]
    for index, one in zip(masked, valid, strict=True):
        out[index][one == 0] = np.nan


@contextmanager
def _opened(path: str, is_placed: bool = False) -> Iterator[DatasetReader]:
    """Open a file quietly; a handle of its own, so that threads read side by side."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning, RasterioIOError

    # Looking into the folder would take longer than the file where there are thousands.
    with rasterio.Env(GDAL_DISABLE_READDIR_ON_OPEN="TRUE"), ExitStack() as stack:
        try:
            if is_placed:
                file = rasterio.open(path, sharing=False)
            else:
                with _FILTERS, warnings.catch_warnings():
                    warnings.simplefilter("ignore", NotGeoreferencedWarning)
                    file = rasterio.open(path, sharing=False)
        except RasterioIOError as error:
            msg = f"'{path}' is not a readable raster ({reason(error)}). It may be truncated or of"
            raise OSError(
                f"{msg} another format; `gdalinfo {path}` shows what GDAL says."
            ) from error
        yield stack.enter_context(file)


def _refuse_changed(file: DatasetReader, band: Band) -> None:
    if file.shape != band.shape or _stamp(band.path) != band.stamp:
        raise OSError("it has changed since it was opened")


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = Path(path).stat()
    except OSError:  # not on a disk
        return ()
    return found.st_size, found.st_mtime_ns


def _wavelength(file: DatasetReader, number: int) -> tuple[float, str]:
    """Return the wavelength of a band and its units, as ENVI or newer GDAL write them."""
    tags = file.tags(number)
    text, units = tags.get("wavelength"), tags.get("wavelength_units", "")
    if text is None:
        text = file.tags(number, ns="IMAGERY").get("CENTRAL_WAVELENGTH_UM")
        units = "um"
    try:
        return float(text), str(units)
    except (TypeError, ValueError):
        return np.nan, ""
