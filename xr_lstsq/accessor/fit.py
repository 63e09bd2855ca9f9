"""Methods of `.lstsq` for a fit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import xarray as xr

from xr_lstsq import fits, inference
from xr_lstsq.accessor.files import FileMethods

if TYPE_CHECKING:
    from xr_lstsq.inference import Validation

__all__ = ["FitMethods"]


class FitMethods(FileMethods):
    """What can be made of a fit."""

    def params(self) -> xr.Dataset:
        """Return one variable per param of this fit, with its own units and long_name.

        Raises
        ------
        ValueError
            When this is no fit.
        """
        return fits.params(self._fit("params"))

    def contrast(
        self, combination: Mapping[Hashable, float] | str, level: float = 0.95
    ) -> xr.Dataset:
        """Return a linear combination of the params of this fit, with its error and test.

        Parameters
        ----------
        combination : mapping or str
            Factors by param names, such as ``{"slope": 10}``; or, of a fit with one polynomial
            P in its terms, ``"mean_rate"``, (P(b) - P(a)) / (b - a) between the first sample a and
            the last b of the cube, or ``"acceleration"``, the same of the derivative of P.
        level : float
            Of the confidence interval.

        Returns
        -------
        Dataset
            ``estimate``, ``stderr``, ``tvalue``, two-sided ``pvalue`` (pixel dims) and ``conf_int``
            (bound, pixel dims), with the prefix of a Dataset fit; lazy where the fit is. ``units``
            are there where all params share theirs. NaN where no degree of freedom is left.

        Raises
        ------
        ValueError
            For params or names that are not known, a fit without the ``cov`` that this is made of
            (``stderr`` is enough for one param), and a Dataset that is no fit.

        Notes
        -----
        estimate = c x and stderr^2 = c C c' with the factors c, coefficients x and covariance C,
        so the ``cov_type`` of the fit counts here too. Student's t with nobs - rank degrees of
        freedom, n_eff - rank with ``cov_type="ar1"``; the normal distribution with
        ``absolute_sigma``.

        Examples
        --------
        >>> import numpy as np, xarray as xr, xr_lstsq
        >>> time = np.arange("2001-01-01", "2001-01-07", dtype="datetime64[D]")
        >>> cube = xr.DataArray([1.0, 2, 4, 4, 5, 7], {"time": time}, "time")
        >>> fit = cube.lstsq.solve("polynomial(1, unit=day)", stats="cov")
        >>> fit.lstsq.contrast({"slope": 10}).conf_int.round(2).values
        array([ 7.65, 14.63])
        """
        return inference.contrast(self._fit("contrast"), combination, level)

    def compare(self, other: xr.Dataset) -> xr.Dataset:
        """Return tests of this fit against another of the same samples: is the larger one better.

        Parameters
        ----------
        other : Dataset
            A fit of the same cube; the params of one of the two are among those of the other.

        Returns
        -------
        Dataset
            ``fvalue`` and its ``pvalue``, and ``aic_difference``, that of this fit minus that of
            `other`, with the prefix of a Dataset fit; lazy where a fit is. NaN where nobs differ or
            no degree of freedom is left; the F test also where ranks are equal.

        Raises
        ------
        ValueError
            For fits of other variables, pixels, weights or methods, models that are not nested by
            the names of their params, and fits without ``rss``.

        Notes
        -----
        F = ((rss0 - rss1) / (rank1 - rank0)) / (rss1 / (nobs - rank1)), model 0 the one of lower
        rank in a pixel, for independent noise whose variances are known up to a factor. A robust
        ``cov_type`` does not enter, nor does ``absolute_sigma``: the test of weights as inverse
        variances holds whether or not their scale is known. AIC = nobs log(rss / nobs) + 2 rank,
        up to what both fits share.
        """
        return inference.compare(self._fit("compare"), other)

    def predict(
        self,
        at: Any,
        interval: Literal["confidence", "prediction"] | None = None,
        level: float = 0.95,
    ) -> xr.DataArray | xr.Dataset:
        """Return the values of this fit at new samples.

        Parameters
        ----------
        at : DataArray, index, array, list, or single label
            Labels of the sample dim: dates of the cube's kind, ISO 8601 texts, or numbers. Or a
            design matrix: a DataArray with sample and param dims, and any pixel dims, matched by
            labels; or a plain (k, p) array with columns in the order of the fit's params.
        interval : {"confidence", "prediction"}, optional
            Of the fitted curve, or of a new sample of weight 1.
        level : float
            Of the interval.

        Returns
        -------
        DataArray or Dataset
            Named and ordered as the cube; a Dataset for the fit of a Dataset. With `interval`, a
            Dataset of ``prediction``, ``lower`` and ``upper``, with the prefix of a Dataset fit.
            NaN where coefficients are. Lazy where the fit is, in its pixel chunks.

        Raises
        ------
        ValueError
            For labels that the terms cannot read, a fit that lacks params or the statistics of the
            interval, and fits of other origins joined into one.

        Notes
        -----
        a x for each row a of the design; the interval reaches t sqrt(a C a') to each side, with
        the covariance C and distribution of `contrast`. ``"prediction"`` adds ``resid_std``^2, or
        1 with ``absolute_sigma``, to the variance: that of a sample of weight 1.
        """
        return inference.predict(self._fit("predict"), at, interval, level)

    def validate(
        self,
        cube: xr.DataArray | xr.Dataset,
        *,
        weights: xr.DataArray | str | Any | None = None,
        valid: xr.DataArray | str | Any | None = None,
        n: int = 1000,
        seed: int = 0,
    ) -> Validation:
        """Fit pixels of the cube again, one by one in plain numpy, and compare them with this fit.

        Parameters
        ----------
        cube : DataArray or Dataset
            What was solved, or a larger cube with the labels of the fit's pixels.
        weights, valid : DataArray, array or name, optional
            As they were passed to `solve`.
        n : int
            Number of pixels to draw for each fitted variable.
        seed : int
            Of the generator that draws.

        Returns
        -------
        Validation
            The largest difference of each variable; a table where it is printed.

        Raises
        ------
        ValidationError
            When a difference lies beyond its bound, or a rank, status or nobs is another; the
            message is the table.
        ValueError
            When this is no fit, its design differs from pixel to pixel (that is not kept), or
            weights or valid are not those of the fit.
        LabelError
            When cube and fit do not fit together.

        Notes
        -----
        Rows that do not count are dropped, what is left is solved in float64 by LAPACK, and every
        variable is made by its textbook formula. The bound of a value is how far it moves when
        samples, design and weights are moved by rounding (statistical condition estimation, Kenney,
        Laub and Reese 1998, doi:10.1137/S1064827595282519).
        """
        return inference.validate(
            self._fit("validate"), cube, weights=weights, valid=valid, n=n, seed=seed
        )
