"""What is left after kills, full disks, crowds and hostile inputs.

    python benchmarks/reliability.py kills 1000
    python benchmarks/reliability.py disk             # as root: it mounts a tmpfs
    python benchmarks/reliability.py crowd 200
    python benchmarks/reliability.py fuzz 20000 --first 0

Works on the small package of the tests. Each act is a command that is run to its end, killed, or
refused; then the same command runs again, and must leave exactly what an undisturbed run leaves.
Everything follows from a seed. Exits with 1 where something was lost, silent, or not bounded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from commands import call
from crash import fork, in_child
from image.building import SYSTEM, write_base
from image.fake_registry import FakeRegistry, fake_registry
from image.images import installed_entries, tar, write_layout
from project import Project, apply_with_git, build_project
from trees import snapshot, timeless

from pkgtools.port import route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trees import Entry as Found

Words = list[str | Path]
_SCRATCH: Final = re.compile(r"(^|/)\.[^/]*\.pkgtools-new$|(^|/)\.[^/]*\.tmp$|(^|/)\.pkgtools-")
"""What a killed write may leave: hidden files and folders that nothing reads."""
_TIME: Final = re.compile(rb'"mtime_ns": [0-9]+')
SECONDS: Final = 5.0
"""The processor's time that a command may take over a hostile input."""
MEGABYTES: Final = 1024
"""The memory that it may have beyond that of the program."""


@dataclass(frozen=True)
class Act:
    """A command, and the folder that it works on."""

    name: str
    prepare: Callable[[Path], None]
    words: Callable[[Path], Words]

    def run(self, folder: Path) -> int:
        """Run the command in this process; return its exit code."""
        return call(*self.words(folder)).code


class Bench:
    """The package, its catalog, and a registry that every act can use."""

    def __init__(self, folder: Path, registry: FakeRegistry) -> None:
        self.folder = folder
        self.registry = registry
        self.project: Project = build_project(folder / "project")
        self.widget = installed_entries(self.project, folder / "entries")
        layout = write_base(folder / "layout", [SYSTEM, self.widget])
        self.base = registry.push_layout(layout, "widget:1")

    def acts(self) -> list[Act]:
        """Return every act."""
        catalog: Words = ["--catalog", self.project.targets]
        target: Words = ["--target", "w-1.0", *catalog]
        wheel = self.project.wheel("1.0")

        def installed(folder: Path) -> None:
            self.project.install(folder / "site", compiled=True)

        def patched(folder: Path) -> None:
            installed(folder)
            call("apply", *target, "--tree", folder / "site")

        def foreign(folder: Path) -> None:
            self.project.write_archive(folder / "site")
            apply_with_git(folder / "site", self.project.catalog().target("w-1.0").series)

        def ported(folder: Path) -> Words:
            wheels: Words = ["--wheel", wheel, "--wheel", self.project.wheel("1.1")]
            to: Words = ["--to", self.project.wheel("1.0"), "-o", folder / "new"]
            return ["port", "--series", "w-1.0", *to, *wheels, *catalog]

        return [
            Act("apply", installed, lambda f: ["apply", *target, "--tree", f / "site"]),
            Act("reverse", patched, lambda f: ["reverse", *catalog, "--tree", f / "site"]),
            Act(
                "adopt",
                foreign,
                lambda f: ["adopt", *target, "--wheel", wheel, "--tree", f / "site"],
            ),
            Act("port", lambda f: f.mkdir(exist_ok=True), ported),
            Act(
                "build wheel",
                lambda f: f.mkdir(exist_ok=True),
                lambda f: ["build", "wheel", *target, "--wheel", wheel, "-o", f / "dist"],
            ),
        ]

    def push(self) -> Act:
        """Return the act that patches an image in the registry; its folder stays empty."""
        words: Words = ["build", "image", "--target", "w-1.0", "--catalog", self.project.targets]
        names = ["--base", self.base, "--tag", f"docker://{self.registry.address}/widget:new"]

        def forget(folder: Path) -> None:
            folder.mkdir(exist_ok=True)
            self.registry.manifests.pop(("widget", "new"), None)

        return Act("registry", forget, lambda _: [*words, *names])

    def fresh(self, act: Act) -> Path:
        """Return the folder of an act as it is before; always the same path."""
        folder, kept = self.folder / "work", self.folder / "kept" / act.name
        shutil.rmtree(folder, ignore_errors=True)
        if not kept.exists():
            folder.mkdir()
            act.prepare(folder)
            shutil.copytree(folder, kept, symlinks=True)
        else:
            shutil.copytree(kept, folder, symlinks=True)
            act.prepare(folder) if act.name == "registry" else None
        return folder

    def after(self, act: Act) -> tuple[dict[str, Found], float]:
        """Return what an undisturbed run leaves, and what it takes of the processor's time."""
        act.run(self.fresh(act))  # imports what the children then have
        folder = self.fresh(act)
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert not in_child(lambda: _must(act.run(folder) == 0)).failed, act.name
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
        return self.seen(folder), seconds

    def seen(self, folder: Path) -> dict[str, Found]:
        """Return what lies in a folder, times and scratch files of killed writes apart."""
        found = timeless(snapshot(folder))
        for name, entry in found.items():
            if name.endswith("pkgtools.json"):
                found[name] = replace(entry, data=_TIME.sub(b"", entry.data))
        return {name: entry for name, entry in found.items() if not _SCRATCH.search(name)}


def _must(holds: bool) -> None:
    if not holds:
        raise AssertionError


def kills(bench: Bench, count: int, seed: int = 0) -> Counter[str]:
    """Kill acts at random moments; each must be made good by running it again."""
    acts = [*bench.acts(), bench.push()]
    found: Counter[str] = Counter()
    for place, act in enumerate(acts):
        expected, seconds = bench.after(act)
        random = Random(f"{seed} {act.name}")  # noqa: S311 - a test
        share = count // len(acts) + (place < count % len(acts))
        while found[f"{act.name}: killed"] + found[f"{act.name}: WRONG"] < share:
            folder = bench.fresh(act)
            moment = random.uniform(0, seconds)
            killed = in_child(partial(_run_until, act, folder, moment)).killed
            name = ("widget", "new")
            torn = name in bench.registry.manifests and not bench.registry.whole(*name)
            code = act.run(folder)
            is_done = code in (0, 2) if act.name == "port" else code == 0
            if act.name == "registry":
                is_done = is_done and bench.registry.whole(*name)
            wrong = torn or not is_done or bench.seen(folder) != expected
            found[f"{act.name}: {'WRONG' if wrong else 'killed' if killed else 'too late'}"] += 1
    return found


def _run_until(act: Act, folder: Path, moment: float) -> None:
    """Run an act until it has used so much of the processor's time, and then die at once."""
    signal.setitimer(signal.ITIMER_PROF, max(moment, 1e-6))  # nothing handles SIGPROF
    act.run(folder)


def disk(bench: Bench, step: int = 4096) -> Counter[str]:
    """Run acts on a disk with some pages free: none, one, two, until there is room."""
    found: Counter[str] = Counter()
    mount = bench.folder / "disk"
    mount.mkdir()
    for act in bench.acts():
        expected, _ = bench.after(act)
        for free in range(0, 64 * 1024 * 1024, step):
            _mount(mount)
            try:
                code, again, left = _filled(bench, act, mount, free)
            finally:
                subprocess.run(["umount", mount], check=True)
            wrong = code not in (0, 7) or again not in (0, 2) or left != expected
            found[f"{act.name}: {'WRONG' if wrong else 'refused' if code else 'done'}"] += 1
            if code == 0:
                break
    return found


def _mount(folder: Path) -> None:
    command: list[str | Path] = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PermissionError(done.stderr.strip())


def _filled(bench: Bench, act: Act, mount: Path, free: int) -> tuple[int, int, dict[str, Found]]:
    """Return the exit codes on a full disk and on the same one with room, and what is left."""
    shutil.copytree(bench.fresh(act), mount / "work", symlinks=True)
    status = os.statvfs(mount)
    with (mount / "ballast").open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, max(status.f_bavail * status.f_frsize - free, 1))
    tempfile.tempdir = str(mount)
    try:
        code = act.run(mount / "work")
        (mount / "ballast").unlink()
        again = act.run(mount / "work")
    finally:
        tempfile.tempdir = None
    return code, again, bench.seen(mount / "work")


def crowd(bench: Bench, count: int, seed: int = 0) -> Counter[str]:
    """Run so many commands at once on one environment; it ends as one of them leaves it."""
    acts = {act.name: act for act in bench.acts()}
    pristine = bench.seen(bench.fresh(acts["apply"]))
    patched, _ = bench.after(acts["apply"])
    reversed_, _ = bench.after(acts["reverse"])
    folder = bench.fresh(acts["apply"])
    catalog: Words = ["--catalog", bench.project.targets, "--tree", folder / "site"]
    words: dict[str, Words] = {
        "apply": ["apply", "--target", "w-1.0", *catalog],
        "reverse": ["reverse", *catalog],
        "verify": ["verify", "--target", "w-1.0", *catalog],
        "status": ["status", *catalog],
    }
    codes = bench.folder / "codes"
    codes.mkdir()

    def run(number: int) -> None:
        verb = Random(f"{seed} {number}").choice(list(words))  # noqa: S311 - a test
        code = call(*words[verb]).code
        # 8: verify of the pristine tree. 4 or 5 would be a tree that another command is writing.
        is_known = code == 0 or (verb, code) == ("verify", 8)
        (codes / f"{number}").write_text(f"{'' if is_known else 'WRONG: '}{verb}: exit {code}")

    running = [fork(partial(run, number)) for number in range(count)]
    failed = sum(child.wait().failed for child in running)
    found = Counter(path.read_text() for path in codes.iterdir())
    found["WRONG: tracebacks"] = failed
    is_known = bench.seen(folder) in (pristine, patched, reversed_)
    found["WRONG: neither patched nor pristine"] = not is_known
    return +found


@dataclass(frozen=True)
class Fuzzed:
    """The result for one hostile input."""

    kind: str
    number: int
    result: str
    """The exit code, or the error that is no refusal."""
    seconds: float


_INTERESTING: Final = (
    *(b"\0", b"\n", b"\r\n", b"../", b"/", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"{}", b"[]"),
    *(b"null", b"9" * 400, b"-1", b"@@ -1 +1 @@\n", b"--- ", b"+++ ", b"GIT binary patch\n"),
    *(b"\\ No newline at end of file\n", b"(" * 3000, b"a/" * 4000, b"\xe2\x80\xae", b"1e999"),
)


def mutate(data: bytes, random: Random) -> bytes:
    """Return data with some random damage."""
    made = bytearray(data)
    for _ in range(random.randint(1, 6)):
        at, end = sorted(random.randrange(len(made) + 1) for _ in range(2))
        kind = random.randrange(6)
        if kind == 0 and made:
            made[min(at, len(made) - 1)] ^= 1 << random.randrange(8)
        elif kind == 1:
            del made[at : min(end, at + 200)]
        elif kind == 2:
            made[at:at] = made[at : min(end, at + 2000)] * random.randint(1, 20)
        elif kind == 3:
            made[at:at] = random.choice(_INTERESTING)
        elif kind == 4:
            made[at : at + 4] = random.randbytes(4)
        elif random.random() < 0.3:
            del made[at:]
    return bytes(made)


class Fuzzer:
    """Makes hostile inputs, and runs a command on each."""

    def __init__(self, bench: Bench, registry: FakeRegistry) -> None:
        self._bench = bench
        self._registry = registry
        self._folder = bench.folder / "fuzz"
        self._catalog = ("--catalog", bench.project.targets)
        self._target = ("--target", "w-1.0", *self._catalog)
        series = bench.project.catalog().target("w-1.0").directory
        self._patches = [path.read_bytes() for path in sorted(series.glob("*.patch"))]
        self._layer = tar([*SYSTEM, *bench.widget])
        self.kinds: dict[str, Callable[[Random], int]] = {
            "patch": self._patch,
            "wheel": self._wheel,
            "layout": self._layout,
            "registry": self._from_registry,
        }

    def run(self, kind: str, number: int) -> int:
        """Run a command on one input; return its exit code."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        return self.kinds[kind](Random(f"{kind} {number}"))  # noqa: S311 - a test

    def _patch(self, random: Random) -> int:
        path = self._folder / "x.patch"
        path.write_bytes(mutate(random.choice(self._patches), random))
        source = ("--from", self._bench.project.wheel("1.0"), "-o", self._folder / "series")
        return call("import", path, *source, *self._catalog).code

    def _wheel(self, random: Random) -> int:
        path = self._folder / self._bench.project.wheel("1.0").name
        data = self._bench.project.wheel("1.0").read_bytes()
        if random.random() < 0.5:
            path.write_bytes(mutate(data, random))
        else:  # a sound archive of damaged members
            path.write_bytes(data)
            with zipfile.ZipFile(path) as archive:
                members = {info: archive.read(info) for info in archive.infolist()}
            damaged = random.choice(list(members))
            with zipfile.ZipFile(path, "w") as archive:
                for info, content in members.items():
                    archive.writestr(info, mutate(content, random) if info is damaged else content)
        output = ("-o", self._folder / "dist")
        return call("build", "wheel", *self._target, "--wheel", path, *output).code

    def _layout(self, random: Random) -> int:
        where = self._folder / "layout"
        reference = self._write_layout(where, random)
        if random.random() < 0.3:
            index = where / "index.json"
            index.write_bytes(mutate(index.read_bytes(), random))
        if random.random() < 0.2:
            blob = random.choice(sorted((where / "blobs" / "sha256").iterdir()))
            blob.write_bytes(mutate(blob.read_bytes(), random))
        tag = ("--tag", f"oci:{self._folder / 'new'}:new")
        return call("build", "image", *self._target, "--base", reference, *tag).code

    def _write_layout(self, where: Path, random: Random) -> str:
        """Write a layout whose layer is damaged, and whose digests are true."""
        layer = mutate(self._layer, random) if random.random() < 0.7 else self._layer
        return write_layout(where, [layer], how=random.choice(["", "gzip", "zstd"]))

    def _from_registry(self, random: Random) -> int:
        registry = self._registry
        registry.blobs.clear()
        registry.manifests.clear()
        reference = registry.push_layout(self._write_layout(self._folder / "l", random), "w:1")
        media_type, manifest = registry.manifests["w", "1"]
        if random.random() < 0.4:
            registry.manifests["w", "1"] = (media_type, mutate(manifest, random))
        damaged = random.randrange(12)
        registry.asked.clear()

        def body(_: object, sound: bytes) -> bytes:
            """Keep the length: a client has to wait for bytes that were announced."""
            if len(registry.asked) != damaged:
                return sound
            return mutate(sound, random)[: len(sound)].ljust(len(sound), b" ")

        registry.body = body
        odd = random.choice([None, None, None, 404, 500, 206, "half", "drop"])
        registry.fault = lambda number, _: odd if number == damaged else None
        tag = ("--tag", f"docker://{registry.address}/w:new")
        return call("build", "image", *self._target, "--base", reference, *tag).code


def fuzz(bench: Bench, numbers: range, batch: int = 250) -> Iterator[Fuzzed]:
    """Run every kind of input in turn, in child processes with bounded memory."""
    for first in range(numbers.start, numbers.stop, batch):
        share = range(first, min(first + batch, numbers.stop))
        report = bench.folder / "report"
        report.unlink(missing_ok=True)
        child = in_child(partial(_fuzz_share, bench, share, report))
        lines = report.read_text().splitlines() if report.exists() else []
        yield from (Fuzzed(*json.loads(line)) for line in lines)
        if child.killed or child.failed:
            number = share.start + len(lines)
            yield Fuzzed("?", number, "died: a signal, or the end of its memory", 0)


def _fuzz_share(bench: Bench, share: range, report: Path) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = size + MEGABYTES * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with fake_registry() as registry, report.open("w") as out:
        fuzzer = Fuzzer(bench, registry)
        kinds = list(fuzzer.kinds)
        for number in share:
            kind = kinds[number % len(kinds)]
            signal.alarm(60)  # ends the process: an input that never ends is found
            start = time.process_time()
            try:
                result = str(fuzzer.run(kind, number))
            except Exception as error:  # noqa: BLE001 - it is what is looked for
                result = f"{type(error).__name__}: {error}"[:300]
            seconds = time.process_time() - start
            out.write(json.dumps([kind, number, result, round(seconds, 4)]) + "\n")
            out.flush()


def wrong(fuzzed: Fuzzed) -> bool:
    """Whether an input made more than a refusal, or took too long."""
    return not re.fullmatch("[0-8]", fuzzed.result) or fuzzed.seconds > SECONDS


def _print_fuzzed(found: Iterable[Fuzzed]) -> bool:
    codes: Counter[str] = Counter()
    longest: dict[str, float] = {}
    is_wrong = False
    for each in found:
        codes[f"{each.kind}: exit {each.result}"] += 1
        longest[each.kind] = max(longest.get(each.kind, 0), each.seconds)
        if wrong(each):
            is_wrong = True
            print("WRONG", each)
    _print(codes)
    for kind, seconds in longest.items():
        print(f"{kind}: at most {seconds:.2f} s")
    return is_wrong


def _print(found: Counter[str]) -> bool:
    for name, count in sorted(found.items()):
        print(f"{count:6} {name}")
    return any("WRONG" in name for name in found)


def main() -> int:
    """Run one part of the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["kills", "disk", "crowd", "fuzz"])
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--first", type=int, default=0, help="the first number of fuzz")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_memory())))
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        setattr(route, "released_versions", lambda _: [])  # noqa: B010 - no index is asked
        bench = Bench(folder, stack.enter_context(fake_registry()))
        if options.part == "fuzz":
            numbers = range(options.first, options.first + options.count)
            return _print_fuzzed(fuzz(bench, numbers))
        if options.part == "disk":
            return _print(disk(bench))
        run = kills if options.part == "kills" else crowd
        return _print(run(bench, options.count, options.seed))


def _memory() -> str | None:
    folder = "/dev/shm"  # noqa: S108 - in memory: thousands of small transactions
    return folder if os.access(folder, os.W_OK) else None


if __name__ == "__main__":
    sys.exit(main())
