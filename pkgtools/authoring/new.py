"""Making a patch of what a tree has beyond its series."""

from pkgtools.authoring.edits import edits_of
from pkgtools.authoring.gitdiff import diff_text
from pkgtools.authoring.message import mail_head
from pkgtools.authoring.work import SeriesWork, check_name
from pkgtools.blob import Blob
from pkgtools.catalog.series import LISTING
from pkgtools.errors import UsageError
from pkgtools.patch import Patch, parse_patch
from pkgtools.source import Tree
from pkgtools.util.files import read_bytes


def new_patch(
    work: SeriesWork, tree: Tree, name: str, message: str, author: str
) -> tuple[Patch, tuple[str, ...]]:
    """Make a patch of what a tree has beyond its series, at the end of the series.

    Returns:
        The patch, and the files of the tree that it leaves out.
    """
    check_name(name)
    subject, _, body = message.strip().partition("\n")
    if not subject or "\n" in author or "\n---" in message:
        raise UsageError(
            "the message needs a subject and no line of dashes, and the author is one line",
            remedy="see --message and --author",
        )
    message = "\n\n".join(filter(None, (subject.strip(), body.strip())))
    with work.locked(tree):
        series = work.named.load()
        if name in {patch.name for patch in series.patches}:
            raise UsageError(
                f"{series.directory} has a patch {name!r} already",
                remedy="name another, or take the edits into it with `pkgtools refresh --patch`",
            )
        edits = edits_of(series, work, tree)
        if edits.uncertain:
            raise UsageError(
                f"{work.source.label} does not have these files, which git tracks in {tree.label}: "
                f"{', '.join(edits.uncertain)}. They are new, or were left out of the wheel",
                remedy="give the release's own files: --git REPOSITORY --from its tag or commit",
            )
        if not edits.changes:
            raise UsageError(
                f"{tree.label} is what the series makes: there is nothing to make a patch of"
                + (f" (left out: {', '.join(edits.left_out)})" if edits.left_out else ""),
                remedy="edit it first, or name the tree that is edited with --tree",
            )
        diff = diff_text(edits.changes, find_renames=True)
        patch = parse_patch(name, mail_head(author, message) + diff)
        listing = series.directory / LISTING
        names = read_bytes(listing).rstrip(b"\n") + f"\n{name}\n".encode()
        work.write({series.directory / name: Blob(patch.data), listing: Blob(names)})
    return patch, edits.left_out
