"""What is run inside an image, by its own Python: the standard library is all it may need."""

from __future__ import annotations

from typing import Final

FIND: Final = """
import glob, importlib.util, json, os, sys

package, tree = sys.argv[1:]
if tree:
    ways = [tree, *glob.glob(os.path.join(glob.escape(tree), "*")), os.path.dirname(tree)]
    found = [os.path.join(way, package) for way in ways]
else:
    sys.path[:] = [entry for entry in sys.path if entry]
    spec = importlib.util.find_spec(package)
    found = list(spec.submodule_search_locations or []) if spec else []
found = [f for f in map(os.path.realpath, found) if os.path.isfile(f + "/__init__.py")]
folders = sorted({os.path.dirname(f) for f in found if os.path.basename(f) == package})
paths = []
for folder in folders:
    for at, below, files in os.walk(os.path.join(folder, package)):
        paths += [os.path.join(at, name) for name in [*below, *files]]
    paths += glob.glob(os.path.join(glob.escape(folder), "*.dist-info", "*"))
    while folder != os.path.dirname(folder):
        if os.path.isfile(folder + "/.git/HEAD"):
            paths.append(folder + "/.git/HEAD")
        folder = os.path.dirname(folder)
print()
print(json.dumps({"folders": folders, "paths": paths}))
"""
"""Prints the folders that hold the package, and the paths in and around it.

Arguments: the package, and the folder that holds it (empty: what would be imported).
"""

COMPILE: Final = """
import hashlib, json, os, sys

found = {}
for path in sys.argv[1:]:
    try:
        with open(path, "rb") as file:
            data = file.read()
        compile(data, path, "exec", dont_inherit=True)
        found[path] = [hashlib.sha1(b"blob %d\\0" % len(data) + data).hexdigest(), ""]
    except (OSError, SyntaxError, ValueError) as error:
        found[path] = ["", str(error)]
print()
print(json.dumps(found))
"""
"""Prints of each path its git blob id, and why it does not compile."""
