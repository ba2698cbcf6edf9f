"""Code that an image's own Python runs; it may use only the standard library."""

from typing import Final

_TAKE: Final = """
import base64, io, os, sys, tarfile

def take(paths):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(set(paths)):
            if os.path.lexists(path):
                archive.add(path, recursive=False)
    print()
    print(base64.b64encode(out.getvalue()).decode())
"""

READ: Final = (
    _TAKE
    + """
take(sys.argv[1:])
"""
)
"""Prints an archive, in base64, of the existing paths among its arguments."""

FIND: Final = (
    _TAKE
    + """
import glob, importlib.util, json

package, tree, files, metadata_files = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])
module = package + ".py"
if tree:
    ways = [tree, *glob.glob(os.path.join(glob.escape(tree), "*")), os.path.dirname(tree)]
    found = [os.path.join(way, name) for way in ways for name in (package, module)]
else:
    sys.path[:] = [entry for entry in sys.path if entry]
    spec = importlib.util.find_spec(package)
    beside = os.path.join(os.path.dirname(spec.origin or ""), module) if spec else ""
    found = list(spec.submodule_search_locations or [beside]) if spec else []
found = [os.path.realpath(f) for f in found]
found = [f for f in found if os.path.isdir(f) or os.path.basename(f) == module]
regular = [f for f in found if os.path.isfile(f + "/__init__.py")]
found = regular or [  # PEP 420
    f for f in found if any(os.path.isfile(os.path.join(os.path.dirname(f), n)) for n in files)
]
folders = sorted({os.path.dirname(f) for f in found if os.path.basename(f) in (package, module)})
paths, holders, names = [], set(), []
for folder in folders:
    for name in files:
        path = os.path.join(folder, name)
        at, stem = os.path.split(os.path.splitext(path)[0])
        cache = os.path.join(at, "__pycache__")
        compiled = glob.glob(os.path.join(glob.escape(cache), glob.escape(stem) + ".*.pyc"))
        paths += [path, cache, os.path.join(at, stem + ".pyc")]
        paths += [] if os.path.islink(cache) else compiled
        if at == folder and name.endswith(".py"):
            holders.add(cache)
            names += glob.glob(glob.escape(os.path.join(at, stem)) + ".*")
        while at != folder and at != os.path.dirname(at):
            holders.add(at)
            at = os.path.dirname(at)
    for info in glob.glob(os.path.join(glob.escape(folder), "*.dist-info")):
        paths.append(info)
        if not os.path.islink(info):
            paths += [os.path.join(info, name) for name in metadata_files]
    while True:
        for home in (".git/pkgtools", ".pkgtools"):
            for at, _, inside in os.walk(os.path.join(folder, home)):
                paths += [os.path.join(at, name) for name in inside]
        paths.append(os.path.join(folder, ".git/HEAD"))
        if folder == os.path.dirname(folder):
            break
        folder = os.path.dirname(folder)
print()
print(json.dumps(folders))
names += [os.path.join(h, n) for h in holders if os.path.isdir(h) for n in os.listdir(h)]
print(json.dumps(names))
take([*paths, *holders])
"""
)
"""Prints the folders that hold the package and the paths around its wanted files, as JSON, and
an archive of what is read of them.

Arguments: the package; the folder that holds it (empty: where it would be imported from);
its files that are wanted, and the names that are wanted of a .dist-info, both as JSON.
"""

COMPILE: Final = """
import json, sys

found = {}
for path in sys.argv[1:]:
    try:
        with open(path, "rb") as file:
            compile(file.read(), path, "exec", dont_inherit=True)
        found[path] = ""
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        found[path] = str(error) or type(error).__name__
print()
print(json.dumps(found))
"""
"""Prints for each path the reason why it does not compile, or an empty text."""
