"""Three-way merge of Python source by structure.

`merge(base, ours, theirs)` carries the change from *base* to *ours* over to *theirs*. It is
pure: bytes in, bytes and a record of each decision out (`model`). `three_way` runs its stages:

1. **Lines** (`lines`). Both changes are cut into chunks, as a diff does. A chunk of ours that
   touches no chunk of theirs goes over as it is; one that theirs has as well is absorbed.
2. **Structure** (`structure`, with the rules of `rules`). Base, ours and theirs (`versions`) are
   read as nested blocks (`syntax`): definitions, statements, elements of lists. Blocks of base are
   aligned with blocks of ours and of theirs, by text, by name, then by likeness (`syntax.align`),
   or found where upstream moved them (`rules.counterparts`). What ours changes in a block is
   carried to the counterpart in theirs as edits on bytes (`rules.transplant`, `rules.siblings`), or
   it is `Unsure` (`result`). Where both insert at one place (`rules.placing`), `rules.twins` and
   `rules.parts` tell whether it is the same in part, and `rules.order` whether the order matters.
   `rules.imports` restores imports that lines of ours need.
3. **Checks**. `comparison`: the result is Python, and its tokens are those of theirs plus exactly
   the change of ours. `checks.faults` lists the checks of what the lines of ours use
   (`checks.landing` says where these went): names, calls, attributes and classes, and what both
   sides change together.
4. Whatever is unsure or fails a check is merged again with the names that upstream uses now
   (`rules.renames`), or by words where these prove the result right (`proven`). What is left
   is a **conflict** (`markers` writes it as git does); `proposals` finds a likely answer for a
   person.

`removed` merges into the files to which upstream moved all of a file; `driver` is git's.

An example. Base, ours and theirs hold ::

    call(          call(          call(
        a=1,           a=1,           a=1,
    )                  ours=2,        theirs=3,
                   )              )

Both insert below ``a=1,``: git reports a conflict. Here, base's statement is aligned with the one
of ours and of theirs by its name, ``call``, and so are the argument lists. Ours inserts
``ours=2`` between ``a=1`` and the end; in theirs ``theirs=3`` is there. Keyword arguments
have no order and the names differ, so both stay: one edit inserts ``ours=2,`` behind ``a=1,``.
The checks find the tokens of theirs plus ``ours = 2``. With ``ours=2`` against ``ours=3`` the
names would be equal, and the answer a conflict: "upstream adds another 'ours'".
"""

from pkgtools.merge.model import ChunkMerge, How, Merge, OtherFiles, Proposal
from pkgtools.merge.proposals import with_proposals
from pkgtools.merge.removed import merge_removed
from pkgtools.merge.three_way import merge

__all__ = [
    "ChunkMerge",
    "How",
    "Merge",
    "OtherFiles",
    "Proposal",
    "merge",
    "merge_removed",
    "with_proposals",
]
