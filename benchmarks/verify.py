"""How quick a dry run is beside what people do instead, both sides in one run.

    python benchmarks/verify.py --git path/to/sglang --git path/to/fork

Prints medians and ratios; docs/design.md has those of a server. Releases come
from pkgtools' own cache. Without --git the commits' rows are left out.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from timing import PKGTOOLS, patch_files, print_header, print_row, run, seconds

from pkgtools.catalog import Catalog, Target, find_catalog, load_catalog
from pkgtools.cli.common import Progress
from pkgtools.source.release import release_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--git", action="append", default=[], type=Path, metavar="REPO")
    parser.add_argument("-n", "--runs", default=5, type=int, help="of each side (default 5)")
    options = parser.parse_args()
    catalog = load_catalog(find_catalog(Path.cwd()))
    wheels = {t.name: _wheel(t) for t in catalog.targets if t.revision.version}
    print_header()
    with tempfile.TemporaryDirectory() as scratch:
        _one_wheel(catalog, wheels, Path(scratch), options.runs)
        if options.git:
            _one_commit(catalog, options.git, Path(scratch), options.runs)
    _everything(wheels, options.git, options.runs)


def _wheel(target: Target) -> Path:
    assert target.revision.version is not None
    return release_wheel(target.upstream, target.revision.version, {}, Progress())


def _one_wheel(catalog: Catalog, wheels: dict[str, Path], scratch: Path, runs: int) -> None:
    target = catalog.target(None)
    wheel = wheels[target.name]

    check = _git_apply(target, scratch)

    def ours() -> None:
        run([*PKGTOOLS, "verify", "--dry-run", "--target", target.name, "--wheel", str(wheel)])

    def instead() -> None:
        tree = scratch / "wheel" / "python"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tree)
        # Outside any repository, where git apply checks instead of passing over.
        run(check, cwd=tree.parent)
        shutil.rmtree(tree)

    print_row(f"{target.name}, a wheel", ours, instead, runs)


def _one_commit(catalog: Catalog, repositories: Sequence[Path], scratch: Path, runs: int) -> None:
    target = next(t for t in catalog.targets if t.revision.commit)
    commit = str(target.revision.commit)
    repository = next(r for r in repositories if _has(r, commit))
    git = ["git", f"--git-dir={_git_dir(repository)}"]

    check = _git_apply(target, scratch)

    def ours() -> None:
        command = ["verify", "--dry-run", "--target", target.name, "--rev", commit]
        run([*PKGTOOLS, *command, "--git", str(repository)])

    def instead() -> None:
        tree = scratch / "worktree"
        run([*git, "worktree", "add", "--detach", "--quiet", str(tree), commit])
        run(check, cwd=tree)
        run([*git, "worktree", "remove", "--force", str(tree)])

    print_row(f"{target.name}, a commit", ours, instead, runs)


def _everything(wheels: dict[str, Path], repositories: Sequence[Path], runs: int) -> None:
    command = [*PKGTOOLS, "verify", "--dry-run", *([] if repositories else ["--allow-missing"])]
    command += [x for wheel in wheels.values() for x in ("--wheel", str(wheel))]
    command += [x for repository in repositories for x in ("--git", str(repository))]
    median = statistics.median(seconds(lambda: run(command)) for _ in range(runs))
    print(f"{'every target, every source':42} {median:8.2f}s")


def _git_apply(target: Target, scratch: Path) -> list[str]:
    """Return what checks a series with git: all of it, each patch on the one before."""
    patches = patch_files(target.series, scratch / "patches")
    return ["git", "apply", "--check", *map(str, patches)]


def _has(repository: Path, commit: str) -> bool:
    command = ["git", f"--git-dir={_git_dir(repository)}", "cat-file", "-e", commit]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _git_dir(repository: Path) -> Path:
    return repository / ".git" if (repository / ".git").exists() else repository


if __name__ == "__main__":
    main()
