"""The state of images: the target of their files, and whether their labels agree."""

from dataclasses import dataclass

from pkgtools.catalog import Catalog
from pkgtools.errors import PkgtoolsError
from pkgtools.image.inspect import inspect_image
from pkgtools.image.reference import open_image
from pkgtools.util.progress import Reporter


@dataclass(frozen=True)
class ShownImage:
    """One image."""

    reference: str
    state: str
    """The target and its state; empty if it could not be read."""
    problem: str = ""
    """Why it could not be read, or how its labels differ from its files."""


def show_image(catalog: Catalog, reference: str, reporter: Reporter) -> ShownImage:
    """Inspect an image; one that cannot be inspected is shown with the reason."""
    try:
        with open_image(reference) as image:
            found = inspect_image(catalog, image, reporter)
    except PkgtoolsError as error:
        return ShownImage(reference, "", error.message)
    state = f"{found.status.target or 'no target'}, {found.status.state}"
    return ShownImage(reference, state, "; ".join(found.mismatches))
