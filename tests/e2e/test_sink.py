"""The sink that the series add: against a store that fails at each call, and a real one.

It is imported by itself: it needs no server.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from serving.mooncake import Lender, Master, Reader
from serving.process import Process

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_SHELF: Final = Path(__file__).parents[2] / "patches" / "sglang"
_ADDED: Final = "python/sglang/srt/spec_capture"
_REGION: Final = np.arange(4096, dtype=np.uint8)
_ADDRESS: Final = _REGION.ctypes.data


@pytest.fixture(scope="session")
def sink_module() -> ModuleType:
    path = _SHELF / "spec-capture" / _ADDED / "sink.py"
    spec = importlib.util.spec_from_file_location("spec_capture_sink", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_each_added_file_exists_once() -> None:
    files = sorted(path.relative_to(_SHELF).as_posix() for path in _SHELF.rglob("*.py"))
    names = ("__init__.py", "capture.py", "methods.py", "request.py", "sink.py")
    assert files == [f"spec-capture/{_ADDED}/{name}" for name in names]
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
    group = module.Objects(replace)
    for i, key in enumerate(keys):
        group.add(key, _ADDRESS + at + 16 * i, 16)
    return group


def _write(sink: Any, *groups: Any) -> list[str | None]:
    errors: list[str | None] = sink.write(list(groups), (_ADDRESS, _REGION.nbytes))
    return errors


def test_a_batch_is_one_put(sink_module: ModuleType, sink: Any, store: FakeStore) -> None:
    groups = [_objects(sink_module, "a", "b"), _objects(sink_module, "c", at=64)]
    assert _write(sink, *groups) == [None, None]
    assert store.calls == ["register", "exist", "put", "exist"]
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
        ("put", lambda keys: [0] * (len(keys) - 1) + [-800], [1], "transfer failed"),
        ("put", lambda keys: [-200] * len(keys), [0, 1], "no room"),
        ("put", lambda keys: [0] * (len(keys) - 1), [0, 1], "3 answers for 4 keys"),
        ("put", lambda keys: [0] * (len(keys) + 1), [0, 1], "5 answers for 4 keys"),
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
    assert set(store.objects) == whole
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
    store.instead = {"put": lambda _: [0, -800], "remove": _raise}
    assert _write(sink, _objects(sink_module, "a", "b"))[0] is not None
    assert set(store.objects) == {"a"}
    store.instead.clear()
    assert _write(sink, _objects(sink_module, "c")) == [None]
    assert set(store.objects) == {"c"}


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
    store.instead["remove"] = lambda keys: [-706] * len(keys)
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


@pytest.mark.server
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
    with pytest.raises(ValueError, match="MOONCAKE_MASTER_SERVER_ADDR"):
        sink_module.StoreConfig.from_env({})
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
    assert set(store.objects) == {"c"}
    replacing = _objects(sink_module, "a", "b", replace=True)
    assert "another writer began it" in (_write(sink, replacing)[0] or "")
    store.unfinished.clear()
    assert _write(sink, replacing) == [None]
    assert _write(sink, _objects(sink_module, "d")) == [None]
    assert set(store.objects) == {"a", "b", "c", "d"}


def test_what_cannot_be_looked_for_afterwards(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    looks = iter([[0, 0, 0], [1, -900, 1]])
    store.instead["exist"] = lambda _: next(looks)
    errors = _write(sink, _objects(sink_module, "a", "b"), _objects(sink_module, "c", at=64))
    assert "does not answer" in (errors[0] or "")
    assert errors[1] is None
    assert set(store.objects) == {"c"}


def test_a_key_that_is_written_after_all_stays(
    sink_module: ModuleType, sink: Any, store: FakeStore
) -> None:
    """It was to be removed, could not be, and then was written by a second attempt."""
    store.instead = {"put": lambda _: [-800], "remove": _raise}
    assert _write(sink, _objects(sink_module, "a"))[0] is not None
    del store.instead["put"]
    assert _write(sink, _objects(sink_module, "a")) == [None]
    del store.instead["remove"]
    assert _write(sink, _objects(sink_module, "b")) == [None]
    assert set(store.objects) == {"a", "b"}


@pytest.mark.server
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

        # One that has no room for all of its objects has none of them.
        large = np.zeros(9 << 20, np.uint8)
        group = sink_module.Objects(replace=False)
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
        assert reader.read("d", [16], "uint8").tolist() == list(range(16))
        reader.close()


_WRITER: Final = """
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("sink", sys.argv[1])
module = sys.modules["sink"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sink = module.MooncakeSink(module.StoreConfig.from_env())
sink.open()
memory = np.zeros(8 << 20, np.uint8)
group = module.Objects(False)
for i, key in enumerate(sys.argv[2:]):
    group.add(key, memory.ctypes.data + (i << 20), 1 << 20)
print("writes", flush=True)
sink.write([group], (memory.ctypes.data, memory.nbytes))
print("wrote", flush=True)
"""


@pytest.mark.server
def test_a_writer_that_is_killed(sink_module: ModuleType, tmp_path: Path) -> None:
    """What it left half written is never taken for stored, and is overwritten in the end."""
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    with Master(tmp_path, "--put_start_discard_timeout_sec=4") as master:
        environment = master.environment(0)
        with Lender(master, tmp_path) as lender:
            lender.pause()  # a transfer to it now takes for ever
            writer = Process(
                [sys.executable, "-c", _WRITER, str(sink_module.__file__), "a", "b"],
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
