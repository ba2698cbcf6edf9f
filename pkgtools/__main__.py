"""``python -m pkgtools``."""

from pkgtools.cli import run

if __name__ == "__main__":
    run()
