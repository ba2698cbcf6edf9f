"""Commands of a catalog's maintainer: lock, changelog, new, refresh, import, export."""
