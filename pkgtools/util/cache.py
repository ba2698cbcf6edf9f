"""The user's cache folder. Everything in it can be deleted."""

from pathlib import Path

from platformdirs import user_cache_path


def cache_folder(name: str) -> Path | None:
    """Return a folder of the cache, which may not exist; None for a user without a home."""
    try:
        cache = user_cache_path("pkgtools", appauthor=False)
    except RuntimeError:
        return None
    # An older platformdirs takes "~" as it is, and a relative XDG_CACHE_HOME, which is void.
    return cache / name if cache.is_absolute() else None
