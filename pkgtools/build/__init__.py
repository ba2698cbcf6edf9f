"""Build patched wheels and patched container images."""
