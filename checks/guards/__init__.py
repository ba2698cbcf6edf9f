"""Runs the guarded kernels under Triton's interpreter, and holds them against float64."""
