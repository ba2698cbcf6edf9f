"""``python -m pkgtools``."""

from pkgtools.cli import main

if __name__ == "__main__":
    main()
