# ruff: noqa: INP001 - its package is SGLang's
"""The store's writer, under the name by which SpecForge's launcher finds a patched SGLang.

Its `managed_local` mode starts only where this module can be found.
"""

from sglang.srt.spec_capture.sink import MooncakeSink, StoreConfig

__all__ = ["MooncakeSink", "StoreConfig"]
