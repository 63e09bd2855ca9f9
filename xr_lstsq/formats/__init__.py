"""File formats: each module opens a cube and writes a Dataset; none knows what a fit is."""
