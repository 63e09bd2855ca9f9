"""Methods of `.lstsq` for maps that are made of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import xarray as xr

from xr_lstsq import inference, recipes

if TYPE_CHECKING:
    from xr_lstsq.inference import Undetermined
    from xr_lstsq.recipes.velocity import ErrorOf

__all__ = ["MapMethods"]


class MapMethods:
    """Maps derived from the coefficients of a fit."""

    _obj: xr.DataArray | xr.Dataset

    def amplitude(self, *, term: str | None = None) -> xr.Dataset:
        r"""Return the amplitude of each harmonic of this fit.

        Parameters
        ----------
        term : str, optional
            ``name=`` of the harmonics where the design has several, ``""`` for those without a
            name.

        Returns
        -------
        Dataset
            ``amplitude`` (harmonic, pixel dims) in the units of differences of the cube, harmonic =
            1 ... n; and ``amplitude_stderr`` where the fit has ``cov``. With the prefix of a
            Dataset fit; lazy where the fit is. NaN where coefficients are; the error also at
            amplitude 0.

        Raises
        ------
        ValueError
            For a fit without such harmonics, or with several and no `term`.
        LabelError
            For a covariance, or coordinates, that do not go with the params.

        Notes
        -----
        :math:`A_k = \sqrt{c_k^2 + s_k^2}` of the params cos_k and sin_k. Its error is that of the
        delta method (Oehlert 1992, doi:10.1080/00031305.1992.10475842), :math:`\sqrt{J C J'}` with
        the derivatives J and the covariance C: good where A is several times its error. An
        amplitude is never negative, so that of noise alone is not 0 on average.
        """
        return inference.amplitude(self._fit("amplitude"), term=term)

    def phase(self, *, term: str | None = None) -> xr.Dataset:
        r"""Return the phase of each harmonic of this fit, and when the sum of them all is largest.

        Parameters
        ----------
        term : str, optional
            As in `amplitude`.

        Returns
        -------
        Dataset
            ``phase`` (harmonic, pixel dims), radians in (-pi, pi]: 0 where the maximum of the
            harmonic lies at the origin of the term. Of a cycle of one year ``peak_day`` (pixel
            dims), the day of year of the maximum of the sum of all harmonics, from 1 (midnight of 1
            January) to below 1 + the days of a year. Of any other cycle ``peak_time`` (pixel dims),
            the time from the origin to that maximum, from 0 to below the period, in the unit of the
            term. Where the fit has ``cov`` also ``phase_stderr``, and ``peak_day_stderr`` in days
            or ``peak_time_stderr``. With the prefix of a Dataset fit; lazy where the fit is. NaN
            where coefficients are, and where all amplitudes that count are 0.

        Raises
        ------
        ValueError
            As `amplitude`, and for fits of other origins joined into one.
        LabelError
            As `amplitude`.

        Notes
        -----
        The k-th harmonic is :math:`A_k \cos(2 \pi k t / T - \phi_k)`, with :math:`\phi_k` the angle
        of (cos_k, sin_k). The maximum of the sum f is refined by Newton's method from the highest
        maxima on a grid; of equal ones the first after the origin counts. Years are of equal
        length, 365.25 days in calendars with leap years, so that a date is off by up to a day in
        any single year.

        Errors are those of the delta method (Oehlert 1992, doi:10.1080/00031305.1992.10475842);
        that of the peak is :math:`\sqrt{g C g'} / |f''|`, with g the derivatives of f' by the
        params; NaN where the peak has no curvature to tell. They are for errors that are small
        beside the cycle, and end at the standard deviation of a time of which nothing is known:
        :math:`\pi / \sqrt 3`, and :math:`T / \sqrt{12}`.
        """
        return inference.phase(self._fit("phase"), term=term)

    def timeseries(self, undetermined: Undetermined = "nan") -> xr.DataArray | xr.Dataset:
        """Return the values of this fit by a network of pairs at the dates of the network.

        Parameters
        ----------
        undetermined : {"nan", "min_norm"}
            What stands at a date that a pixel's pairs do not determine, because no chain of them
            leads from it to the reference date: NaN, or what the minimum-norm answer says.

        Returns
        -------
        DataArray or Dataset
            (date, pixel dims), every date of the network, relative to the reference date, which
            is an exact 0; named as the cube, or ``displacement``. A Dataset for the fit of a
            Dataset. Lazy where the fit is, and ready for ``.lstsq.trend()``.

        Raises
        ------
        ValueError
            For a fit without a network, or without some of its params.

        Notes
        -----
        Which pairs a pixel has is read from ``residual``; a fit without tells only that all dates
        are determined, at full rank, so that pixels of short rank are NaN but at the reference
        date.
        """
        return inference.timeseries(self._fit("timeseries"), undetermined)

    def velocity(self, error: ErrorOf = "fit", undetermined: Undetermined = "nan") -> xr.Dataset:
        """Return the velocity of every pixel of this fit by a network of pairs.

        Parameters
        ----------
        error : {"fit", "propagated"}
            ``"fit"``: the standard error of the line through the time series, as is usual.
            ``"propagated"``: what the misfit of the pairs makes of it (needs ``cov``), which is far
            too small where the atmosphere of a date is in all its pairs alike.
        undetermined : {"nan", "min_norm"}
            As for `timeseries`.

        Returns
        -------
        Dataset
            ``velocity``, the slope of a straight line through the time series of `timeseries`, per
            year, and its ``stderr`` (pixel dims), with the prefix of a Dataset fit; lazy where the
            fit is.

        Raises
        ------
        ValueError
            For a fit without a network, and ``error="propagated"`` without ``cov``.
        """
        return recipes.velocity(self._fit("velocity"), error, undetermined)

    def _fit(self, method: str) -> xr.Dataset:
        """Return the Dataset of a fit."""
        if isinstance(self._obj, xr.DataArray):
            msg = (
                f".lstsq.{method} is for a fit, which is a Dataset, and {self._obj.name!r} is a "
                "DataArray. Call it on what .lstsq.solve returned."
            )
            raise ValueError(msg)  # noqa: TRY004 - the same error as for a Dataset that is no fit
        return self._obj
