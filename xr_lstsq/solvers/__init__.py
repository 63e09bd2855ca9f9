"""Batched least-squares solvers in torch: samples first, params next, pixels last."""
