"""Tests of xr_lstsq."""
