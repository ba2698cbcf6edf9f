"""Read and push images in registries, without an engine.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md

Input from a registry is untrusted: sizes are bounded, digests checked and redirects counted, and
credentials are sent only to the registry's own address and its token server.
"""
