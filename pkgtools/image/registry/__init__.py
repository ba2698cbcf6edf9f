"""Images in registries (OCI distribution specification), read and pushed without an engine.

All that a registry sends is hostile input: sizes are bounded, digests checked, redirects
counted, and credentials go to the registry's own address and its token server alone.
"""
