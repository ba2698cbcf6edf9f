"""The sink that the series add: against a store that fails at each call, and a real one.

It is imported by itself: it needs no server.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import re
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from packaging.version import Version

from serving.mooncake import Lender, Master, Reader
from serving.process import Process

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

pytestmark = pytest.mark.server

_SHELF: Final = Path(__file__).parents[2] / "patches" / "sglang"
_ADDED: Final = "python/sglang/srt"
_PACKAGE: Final = _SHELF / "spec-capture" / "python"
_REGION: Final = np.arange(4096, dtype=np.uint8)
_ADDRESS: Final = _REGION.ctypes.data
_TOKENS: Final = itertools.cycle(range(128))


@pytest.fixture(scope="session")
def sink_module() -> ModuleType:
    """Import the module under its own name, of a package that holds nothing else of SGLang."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(_PACKAGE))
        return importlib.import_module("sglang.srt.spec_capture.sink")


def test_each_added_file_exists_once() -> None:
    files = sorted(path.relative_to(_SHELF).as_posix() for path in _SHELF.rglob("*.py"))
    package = _PACKAGE / "sglang" / "srt" / "spec_capture"
    names = sorted(path.stem for path in package.iterdir() if path.is_file())
    assert {"__init__", "capture", "sink"} < set(names)
    assert files == [
        *(f"spec-capture/{_ADDED}/spec_capture/{name}.py" for name in names),
        f"spec-capture/{_ADDED}/spec_capture_sink.py",
    ]
    for series in _SHELF.glob("*/series"):
        assert "../spec-capture/" in series.read_text().splitlines(), series
    for patch in _SHELF.rglob("*.patch"):
        assert b"\nnew file mode " not in patch.read_bytes(), patch


class FakeStore:
    """Keeps objects in a dictionary, and does what a test says at one of its calls."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.unfinished: set[str] = set()
        self.calls: list[str] = []
        self.instead: dict[str, Callable[[list[str]], Any]] = {}

    def _answer(self, call: str, keys: list[str], usual: Any) -> Any:
        instead = self.instead.get(call)
        return usual if instead is None else instead(keys)

    def register_buffer(self, _pointer: int, _size: int) -> int:
        self.calls.append("register")
        return int(self._answer("register", [], 0))

    def unregister_buffer(self, _pointer: int) -> int:
        self.calls.append("unregister")
        return 0

    def batch_is_exist(self, keys: list[str]) -> Any:
        self.calls.append("exist")
        usual = [int(key in self.objects) for key in keys]
        wanted = self._answer("exist", keys, usual)
        if len(wanted) != len(keys):
            return wanted
        return [own if want is None else want for want, own in zip(wanted, usual, strict=True)]

    def batch_remove(self, keys: list[str], force: bool) -> Any:
        assert force
        self.calls.append("remove")
        if "remove" in self.instead:
            return self.instead["remove"](keys)
        return [self._remove(key) for key in keys]

    def get_batch(self, keys: list[str]) -> list[bytes]:
        self.calls.append("read")
        read: list[bytes] = self._answer("read", keys, [self.objects.get(k, b"") for k in keys])
        return read

    @property
    def names(self) -> set[str]:
        """The keys without the markers of attempts."""
        return {key for key in self.objects if not key.endswith("/.attempt")}

    def remove_markers_alone(self, keys: list[str]) -> list[int]:
        """Fail for every object but the marker of an attempt."""
        if not all(key.endswith("/.attempt") for key in keys):
            raise TimeoutError("no answer")
        return [self._remove(key) for key in keys]

    def _remove(self, key: str) -> int:
        if key in self.unfinished:
            return -703
        return -704 if self.objects.pop(key, None) is None else 0

    def batch_put_from(
        self, keys: list[str], pointers: list[int], sizes: list[int], _keep: object
    ) -> Any:
        self.calls.append("put")
        wanted = self._answer("put", keys, [0] * len(keys))
        for i, (key, pointer, size) in enumerate(zip(keys, pointers, sizes, strict=True)):
            if key not in self.unfinished and (i >= len(wanted) or wanted[i] == 0):
                # As the real one: a key that is there keeps its bytes, and no word of it,
                # nor of one that a writer began and did not finish.
                self.objects.setdefault(key, ctypes.string_at(pointer, size))
        return wanted


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def sink(sink_module: ModuleType, store: FakeStore) -> Any:
    return sink_module.MooncakeSink(None, lambda _config: (store, object()))


def _objects(module: ModuleType, *keys: str, replace: bool = False, at: int = 0) -> Any:
    group = module.Objects(replace, "of " + " ".join(keys))
    for i, key in enumerate(keys):
        group.add(key, _ADDRESS + at + 16 * i, 16)
    return _with_token(group)


def _with_token(group: Any) -> Any:
    """Put its token behind what the objects of all tests lie in, where no other is."""
    at = 1024 + 16 * next(_TOKENS)
    _REGION[at : at + 16] = np.frombuffer(group.token, np.uint8)
    group.token_at = _ADDRESS + at
    return group


def _write(sink: Any, *groups: Any) -> list[str | None]:
    errors: list[str | None] = sink.write(list(groups), (_ADDRESS, _REGION.nbytes))
    return errors


def test_a_batch_is_one_put(sink_module: ModuleType, sink: Any, store: FakeStore) -> None:
    groups = [_objects(sink_module, "a", "b"), _objects(sink_module, "c", at=64)]
    assert _write(sink, *groups) == [None, None]
    assert store.calls == ["register", "exist", "remove", "put", "exist"]
    sink.release(groups)
    assert store.objects == {
        "a": bytes(range(16)),
        "b": bytes(range(16, 32)),
        "c": bytes(range(64, 80)),
    }
    _write(sink, _objects(sink_module, "d"))
    assert store.calls.count("register") == 1, "memory is registered once"


def _raise(_keys: list[str]) -> Any:
    raise TimeoutError("no answer")


@pytest.mark.parametrize(
    ("call", "instead", "wrong", "reason"),
    [
        ("put", lambda keys: [-800 * (key == "d") for key in keys], [1], "transfer failed"),
        ("put", lambda keys: [-200] * len(keys), [0, 1], "no room"),
        ("put", lambda keys: [0] * (len(keys) - 1), [0, 1], "5 answers for 6 keys"),
        ("put", lambda keys: [0] * (len(keys) + 1), [0, 1], "7 answers for 6 keys"),
        ("put", _raise, [0, 1], "TimeoutError: no answer"),
        ("exist", lambda keys: [-900 if k == "d" else None for k in keys], [1], "not answer"),
        ("exist", lambda _: [], [0, 1], "0 answers"),
        ("exist", _raise, [0, 1], "TimeoutError"),
        ("register", lambda _: -600, [0, 1], "cannot read 4096 bytes"),
    ],
)
def test_a_call_that_fails(
    sink_module: ModuleType,
    sink: Any,
    store: FakeStore,
    call: str,
    instead: Callable[[list[str]], Any],
    wrong: list[int],
    reason: str,
) -> None:
    """Fails what it has to, whole, and leaves nothing of that; the rest is stored."""
    store.instead[call] = instead
    names = [["a", "b"], ["c", "d"]]
    errors = _write(sink, *(_objects(sink_module, *keys) for keys in names))
    assert [i for i, error in enumerate(errors) if error is not None] == wrong
    assert all(re.search(reason, errors[i] or "") for i in wrong), errors
    whole = {key for i, keys in enumerate(names) if i not in wrong for key in keys}
    assert store.names == whole
    # And the next batch is none the worse for it.
    store.instead.clear()
    assert _write(sink, *(_objects(sink_module, *keys) for keys in names)) == [
        None if i in wrong else error for i, error in enumerate(_taken(names, wrong))
    ]


def _taken(names: list[list[str]], wrong: list[int]) -> list[str | None]:
    return [
        None if i in wrong else f"{keys[-1]} is in the store already and replace is not set"
        for i, keys in enumerate(names)
    ]


def test_what_could_not_be_removed_is_removed_later(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    store.instead = {"put": lambda _: [0, -800, 0], "remove": store.remove_markers_alone}
    assert _write(sink, _objects(sink_module, "a", "b"))[0] is not None
    assert store.names == {"a"}
    store.instead.clear()
    assert _write(sink, _objects(sink_module, "c")) == [None]
    assert store.names == {"c"}


class Shared(FakeStore):
    """What a second server sees of a store that only the first one has trouble with."""

    def __init__(self, store: FakeStore) -> None:
        super().__init__()
        self.objects = store.objects
        self.unfinished = store.unfinished


def _other(module: ModuleType, store: FakeStore) -> Any:
    return module.MooncakeSink(None, lambda _config: (Shared(store), object()))


@pytest.mark.parametrize("is_released", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_what_a_later_attempt_wrote_is_not_removed(
    sink_module: ModuleType, sink: Any, store: FakeStore, replace: bool, is_released: bool
) -> None:
    """One server could not remove what it left; a second one has the sample meanwhile."""
    store.instead = {"put": lambda _: [0, -800, 0], "remove": store.remove_markers_alone}
    assert _write(sink, _objects(sink_module, "a", "b"))[0] is not None
    assert sink.has_leftovers
    other = _other(sink_module, store)
    if not replace:  # somebody took the leftover out by hand
        store.objects.pop("a")
    again = _objects(sink_module, "a", "b", replace=replace, at=64)
    assert _write(other, again) == [None]
    if is_released:
        other.release([again])
    store.instead.clear()
    assert _write(sink, _objects(sink_module, "c")) == [None]
    assert not sink.has_leftovers
    assert store.names == {"a", "b", "c"}
    assert store.objects["a"] == bytes(range(64, 80))


def test_what_a_client_left_is_removed_unless_it_sent_it_again(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    left, sent_again = _objects(sink_module, "a"), _objects(sink_module, "b")
    assert _write(sink, left, sent_again) == [None, None]
    other = _other(sink_module, store)
    assert _write(other, _objects(sink_module, "b", replace=True, at=64)) == [None]
    sink.remove([left, sent_again])
    assert store.names == {"b"}
    assert store.objects["b"] == bytes(range(64, 80))


@pytest.mark.parametrize("call", ["exist", "read", "remove"])
def test_a_store_that_tells_nothing_keeps_what_is_left(
    sink_module: ModuleType, sink: Any, store: FakeStore, call: str
) -> None:
    """Whether an object is this attempt's is asked again until the store says so."""
    group = _objects(sink_module, "a")
    assert _write(sink, group) == [None]
    store.instead[call] = _raise
    sink.remove([group])
    assert sink.has_leftovers
    assert store.names == {"a"}
    store.instead.clear()
    sink.remove([])
    assert not sink.has_leftovers
    assert store.objects == {}


def test_an_error_for_want_of_room_is_told_apart(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    store.instead = {"put": lambda keys: [-200] * len(keys)}
    (error,) = _write(sink, _objects(sink_module, "a"))
    assert sink_module.lacks_room(error)
    store.instead = {"put": lambda keys: [-800] * len(keys)}
    (error,) = _write(sink, _objects(sink_module, "a"))
    assert not sink_module.lacks_room(error)


def test_a_marker_that_cannot_be_written_takes_its_objects_along(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    store.instead = {"put": lambda keys: [-200 * key.endswith(".attempt") for key in keys]}
    (error,) = _write(sink, _objects(sink_module, "a", "b"))
    assert sink_module.lacks_room(error)
    assert store.objects == {}
    assert not sink.has_leftovers


def test_keys_that_are_taken_are_told_before_anything_is_written(
    sink: Any, store: FakeStore
) -> None:
    assert sink.taken(["a"]) is None, "there is no connection yet"
    sink.open()
    store.objects = {"b": b"old"}
    assert sink.taken(["a", "c"]) is None
    assert "b is in the store already" in sink.taken(["a", "b"])
    store.instead["exist"] = _raise
    assert sink.taken(["b"]) is None
    assert store.objects == {"b": b"old"}


def test_a_taken_key(sink_module: ModuleType, sink: Any, store: FakeStore) -> None:
    store.objects = {"b": b"old"}
    taken, free = _objects(sink_module, "a", "b"), _objects(sink_module, "c")
    errors = _write(sink, taken, free)
    assert "b is in the store already" in (errors[0] or "")
    assert errors[1] is None
    assert store.objects["b"] == b"old"
    assert "a" not in store.objects
    assert _write(sink, _objects(sink_module, "a", "b", replace=True)) == [None]
    assert store.objects["b"] == bytes(range(16, 32))


def test_a_key_that_cannot_be_replaced(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    store.objects = {"a": b"old"}
    store.instead["remove"] = lambda keys: [-706 if key == "a" else -704 for key in keys]
    errors = _write(sink, _objects(sink_module, "a", replace=True), _objects(sink_module, "b"))
    assert "a reader holds the object" in (errors[0] or "")
    assert errors[1] is None
    assert store.objects["a"] == b"old"


def test_two_requests_with_one_key(sink_module: ModuleType, sink: Any, store: FakeStore) -> None:
    errors = _write(sink, _objects(sink_module, "a"), _objects(sink_module, "a", at=64))
    assert errors[0] is None
    assert "another request" in (errors[1] or "")
    assert store.objects["a"] == bytes(range(16))


def test_a_store_that_cannot_be_reached_is_tried_again_after_a_while(
    sink_module: ModuleType, store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[object] = []
    clock = [100.0]
    monkeypatch.setattr(sink_module.time, "monotonic", lambda: clock[0])

    def connect(config: object) -> tuple[FakeStore, object]:
        tries.append(config)
        if len(tries) == 1:
            raise sink_module.StoreError("no way")
        return store, object()

    sink = sink_module.MooncakeSink(None, connect)
    assert _write(sink, _objects(sink_module, "a")) == ["no way"]
    assert _write(sink, _objects(sink_module, "a")) == ["no way"]
    assert len(tries) == 1
    clock[0] += 6
    assert _write(sink, _objects(sink_module, "a")) == [None]
    assert len(tries) == 2


def test_a_dead_master_is_told_at_once(sink_module: ModuleType) -> None:
    config = sink_module.StoreConfig.from_env({"MOONCAKE_MASTER_SERVER_ADDR": "127.0.0.1:1"})
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    with pytest.raises(sink_module.StoreError, match="does not answer"):
        sink_module.connect_mooncake(config)


def test_the_variables(sink_module: ModuleType) -> None:
    config = sink_module.StoreConfig.from_env(
        {
            "MOONCAKE_MASTER_SERVER_ADDR": "store:1",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": "4 GB",
            "MOONCAKE_LOCAL_BUFFER_SIZE": "1073741824",
            "MOONCAKE_RDMA_DEVICES": "mlx5_0",
        }
    )
    assert (config.segment_bytes, config.buffer_bytes) == (4 << 30, 1 << 30)
    assert (config.protocol, config.devices) == ("tcp", "mlx5_0")
    usual = sink_module.StoreConfig.from_env({})
    assert (usual.master, usual.metadata) == ("localhost:50051", "http://localhost:8080/metadata")
    assert (usual.segment_bytes, usual.buffer_bytes) == (1 << 30, 1 << 30)
    with pytest.raises(ValueError, match="MOONCAKE_LOCAL_BUFFER_SIZE"):
        sink_module.StoreConfig.from_env(
            {"MOONCAKE_MASTER_SERVER_ADDR": "a:1", "MOONCAKE_LOCAL_BUFFER_SIZE": "much"}
        )


def test_what_a_dead_writer_began(sink_module: ModuleType, sink: Any, store: FakeStore) -> None:
    """No reference to it is given out, and once the store has freed it, it is written."""
    store.unfinished = {"b"}
    groups = [_objects(sink_module, "a", "b"), _objects(sink_module, "c", at=64)]
    errors = _write(sink, *groups)
    assert "another writer began it" in (errors[0] or "")
    assert errors[1] is None
    assert store.names == {"c"}
    replacing = _objects(sink_module, "a", "b", replace=True)
    assert "another writer began it" in (_write(sink, replacing)[0] or "")
    store.unfinished.clear()
    assert _write(sink, replacing) == [None]
    assert _write(sink, _objects(sink_module, "d")) == [None]
    assert store.names == {"a", "b", "c", "d"}


def test_what_cannot_be_looked_for_afterwards(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    looks = iter([[0, 0, 0], [1, -900, 1, 1, 1], [1]])  # the last: its marker
    store.instead["exist"] = lambda _: next(looks)
    errors = _write(sink, _objects(sink_module, "a", "b"), _objects(sink_module, "c", at=64))
    assert "does not answer" in (errors[0] or "")
    assert errors[1] is None
    assert store.names == {"c"}


def test_a_key_that_is_written_after_all_stays(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    """It was to be removed, could not be, and then was written by a second attempt."""
    store.instead = {"put": lambda _: [-800, 0], "remove": store.remove_markers_alone}
    assert _write(sink, _objects(sink_module, "a"))[0] is not None
    del store.instead["put"]
    assert _write(sink, _objects(sink_module, "a")) == [None]
    del store.instead["remove"]
    assert _write(sink, _objects(sink_module, "b")) == [None]
    assert store.names == {"a", "b"}


class _CutOff:
    """Lets a sink's real store remove nothing while `off`."""

    def __init__(self, sink: Any) -> None:
        self.off = False
        self._store = sink._store
        sink._store = self

    def batch_remove(self, keys: list[str], force: bool) -> Any:
        return [-900] * len(keys) if self.off else self._store.batch_remove(keys, force)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_real_store(sink_module: ModuleType, tmp_path: Path) -> None:
    """Replaces under a reader's lease, keeps whole requests only, and survives a restart."""
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    with Master(tmp_path) as master:
        environment = master.environment(16 << 20)
        sink = sink_module.MooncakeSink(sink_module.StoreConfig.from_env(environment))
        assert _write(sink, _objects(sink_module, "a", "b")) == [None]
        reader = Reader(master)
        assert reader.read("b", [16], "uint8").tolist() == list(range(16, 32))
        errors = _write(sink, _objects(sink_module, "b", "c"))
        assert "b is in the store already" in (errors[0] or "")
        assert reader.exists("c") == [False]
        again = _objects(sink_module, "b", at=100, replace=True)
        assert _write(sink, again) == [None]
        assert reader.read("b", [16], "uint8").tolist() == list(range(100, 116))

        # What a first server could not remove stays where a second one wrote it again.
        cut = _CutOff(sink)
        left = _objects(sink_module, "p", "q")
        assert _write(sink, left) == [None]
        cut.off = True
        sink.remove([left])
        assert sink.has_leftovers
        second = sink_module.MooncakeSink(sink_module.StoreConfig.from_env(environment))
        again = _objects(sink_module, "p", "q", at=64, replace=True)
        assert _write(second, again) == [None]
        cut.off = False
        assert _write(sink, _objects(sink_module, "r")) == [None]
        assert not sink.has_leftovers
        assert reader.read("q", [16], "uint8").tolist() == list(range(80, 96))
        second.release([again])
        assert reader.exists(left.marker, "p", "q") == [False, True, True]
        second._store.close()

        # One that has no room for all of its objects has none of them.
        large = np.zeros(9 << 20, np.uint8)
        group = sink_module.Objects(False, "large", token_at=large.ctypes.data)
        large[:16] = np.frombuffer(group.token, np.uint8)
        for name in ("x", "y"):
            group.add(name, large.ctypes.data, large.nbytes)
        errors = sink.write([group], (large.ctypes.data, large.nbytes))
        assert "no room" in (errors[0] or "")
        assert reader.exists("x", "y") == [False, False]

        master.kill()
        assert "does not answer" in (_write(sink, _objects(sink_module, "d"))[0] or "")
        master.start()
        for _ in range(100):
            if _write(sink, _objects(sink_module, "d")) == [None]:
                break
            time.sleep(0.2)
        else:
            pytest.fail("the store came back and is not written to")
        reader.close()
        reader = Reader(master)
        # An older client does not tell a new master where it is.
        if Version(version("mooncake-transfer-engine-non-cuda")) >= Version("0.3.11"):
            assert reader.read("d", [16], "uint8").tolist() == list(range(16))
        reader.close()


# The writer stops with its lender: it has no memory of its own.
_WRITER: Final = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from sglang.srt.spec_capture import sink as module
sink = module.MooncakeSink(module.StoreConfig.from_env())
sink.open()
memory = np.zeros(8 << 20, np.uint8)
group = module.Objects(False, "sample", token_at=memory.ctypes.data)
for i, key in enumerate(sys.argv[2:]):
    group.add(key, memory.ctypes.data + (i << 20), 1 << 20)
print("writes", flush=True)
sink.write([group], (memory.ctypes.data, memory.nbytes))
print("wrote", flush=True)
"""


def test_a_writer_that_is_killed(sink_module: ModuleType, tmp_path: Path) -> None:
    """What it left half written is never taken for stored, and is overwritten in the end."""
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    with Master(tmp_path, "--put_start_discard_timeout_sec=4") as master:
        environment = master.environment(0)
        with Lender(master, tmp_path) as lender:
            lender.pause()  # a transfer to it now takes for ever
            writer = Process(
                [sys.executable, "-c", _WRITER, str(_PACKAGE), "a", "b"],
                tmp_path / "writer.log",
                environment,
            )
            with writer:
                reader = Reader(master)
                writer.wait_until(lambda: reader.is_unfinished("a", "b"), 30)
            assert "wrote" not in writer.log()
            lender.resume()

            sink = sink_module.MooncakeSink(sink_module.StoreConfig.from_env(environment))
            errors = _write(sink, _objects(sink_module, "a", "b"), _objects(sink_module, "c"))
            assert "another writer began it" in (errors[0] or "")
            assert errors[1] is None
            assert reader.exists("a", "b", "c") == [False, False, True]
            again = _objects(sink_module, "a", "b", at=100, replace=True)
            deadline = time.monotonic() + 30
            while (errors := _write(sink, again)) != [None]:
                assert reader.exists("a", "b") == [False, False], errors
                assert time.monotonic() < deadline, errors
                time.sleep(0.2)
            assert reader.read("b", [16], "uint8").tolist() == list(range(116, 132))
            reader.close()
