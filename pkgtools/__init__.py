"""Versioned patch series on Python packages, applied exactly or not at all."""

__version__ = "0.1.0"
