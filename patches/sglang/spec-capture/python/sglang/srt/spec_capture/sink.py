"""Writes a request's objects to a Mooncake store: all of them, or none.

A store that fails raises nothing here: the error is the result of the requests that it
concerns. Except for `taken`, one thread calls the methods.

Several servers can write to one store, and a client that got no answer sends its sample
again, to any of them, under the same keys. The store has no owner of an object, so every
attempt writes a marker with its objects: a small object that holds a random token. A later
attempt takes the marker out and writes its own. Before an object is removed, the marker is
read: only the attempt whose token is there removes what is under its keys.
"""

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sglang.srt.spec_capture.memory import mapped_regions, touch_in_background

logger = logging.getLogger(__name__)

MARKER = ".attempt"

_NO_ROOM = -200
_UNFINISHED = -703
_NOT_FOUND = -704
_GONE = (0, _NOT_FOUND)
_MEANING = {
    _NO_ROOM: "the store has no room for it, or no memory yet",
    -600: "the store refused the parameters",
    _UNFINISHED: "another writer began it and has not finished; if that one is dead, "
    "the store frees the key after half a minute",
    -705: "the key is taken",
    -706: "a reader holds the object",
    -800: "the transfer failed",
    -900: "the master does not answer",
}
_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}

# A dead master is asked again only after a while: each attempt can take minutes.
_RETRY_S = 5.0
_PROBE_S = 2.0
_WORTH_TOUCHING = 256 << 20


class StoreError(RuntimeError):
    """Why nothing can be written at all."""


def lacks_room(error: str) -> bool:
    """Whether an error of `MooncakeSink.write` passes when others remove objects."""
    return error.endswith(f"({_NO_ROOM})")


def _size(text: str) -> int:
    """Return the bytes of a size such as 1073741824, 16MB or 4 GB."""
    lowered = text.strip().lower()
    digits = lowered.rstrip("bkmgt ")
    unit = lowered[len(digits) :].strip()
    if unit not in _UNITS or not digits.isdecimal():
        raise ValueError(f"{text!r} is not a size")
    return int(digits) * _UNITS[unit]


@dataclass(frozen=True)
class StoreConfig:
    """Mooncake's standard variables, with the defaults of its own documentation."""

    master: str
    metadata: str
    hostname: str
    protocol: str
    devices: str
    segment_bytes: int
    buffer_bytes: int

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "StoreConfig":
        """Read the variables."""
        sizes = {}
        for name in ("MOONCAKE_GLOBAL_SEGMENT_SIZE", "MOONCAKE_LOCAL_BUFFER_SIZE"):
            try:
                sizes[name] = _size(env.get(name) or "1gb")
            except ValueError as e:
                raise ValueError(f"{name}: {e}") from e
        return cls(
            master=env.get("MOONCAKE_MASTER_SERVER_ADDR") or "localhost:50051",
            metadata=env.get("MOONCAKE_METADATA_SERVER") or "http://localhost:8080/metadata",
            hostname=env.get("MOONCAKE_LOCAL_HOSTNAME") or "localhost",
            protocol=env.get("MOONCAKE_PROTOCOL") or "tcp",
            devices=env.get("MOONCAKE_RDMA_DEVICES", ""),
            segment_bytes=sizes["MOONCAKE_GLOBAL_SEGMENT_SIZE"],
            buffer_bytes=sizes["MOONCAKE_LOCAL_BUFFER_SIZE"],
        )


@dataclass
class Objects:
    """What one attempt writes: keys and where their bytes are.

    `prefix` is what all of its keys begin with; its marker is below it, and its token has
    to be in memory at `token_at`.
    """

    replace: bool
    prefix: str = ""
    keys: list[str] = field(default_factory=list)
    pointers: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    token: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    token_at: int = 0

    @property
    def marker(self) -> str:
        """The key of the marker."""
        return f"{self.prefix}/{MARKER}"

    def add(self, key: str, pointer: int, size: int) -> None:
        """Add an object."""
        self.keys.append(key)
        self.pointers.append(pointer)
        self.sizes.append(size)


def connect_mooncake(config: StoreConfig) -> tuple[Any, Any]:
    """Return a client of the store, and how it has to keep objects."""
    try:
        from mooncake.store import MooncakeDistributedStore, ReplicateConfig
    except ImportError as e:
        raise StoreError(f"Mooncake is not installed: {e}") from e
    _probe(config.master)
    store = MooncakeDistributedStore()
    before = mapped_regions(config.segment_bytes)
    status = store.setup(
        config.hostname,
        config.metadata,
        config.segment_bytes,
        config.buffer_bytes,
        config.protocol,
        config.devices,
        config.master,
    )
    if status != 0:
        raise StoreError(f"no connection to the store at {config.master} ({status})")
    if config.segment_bytes >= _WORTH_TOUCHING:
        # It does not tell where the segment is: in what was not mapped before.
        touch_in_background(mapped_regions(config.segment_bytes) - before)
    keep = ReplicateConfig()
    keep.replica_num = 1
    # A sample cannot be made a second time: eviction must not take it.
    keep.with_hard_pin = True
    return store, keep


def _probe(master: str) -> None:
    """Connect once: Mooncake's own client tries a dead master for 90 seconds."""
    host, colon, port = master.rpartition(":")
    if not colon or not port.isdecimal() or "/" in master or "," in master:
        return  # the name of a cluster
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_S).close()
    except OSError as e:
        raise StoreError(f"the store's master at {master} does not answer: {e}") from e


class MooncakeSink:
    """A client of the store that writes and removes whole groups of objects."""

    def __init__(
        self,
        config: StoreConfig,
        connect: Callable[[StoreConfig], tuple[Any, Any]] = connect_mooncake,
    ) -> None:
        self._config = config
        self._connect = connect
        self._store: Any = None
        self._keep: Any = None
        self._registered: dict[int, int] = {}
        self._leftovers: list[Objects] = []
        self._failure: StoreError | None = None
        self._failed_at = 0.0

    @property
    def has_leftovers(self) -> bool:
        """Whether objects wait for a store that could not remove them."""
        return bool(self._leftovers)

    def open(self) -> None:
        """Connect, if there is no connection."""
        if self._store is not None:
            return
        if self._failure and time.monotonic() - self._failed_at < _RETRY_S:
            raise self._failure
        try:
            self._store, self._keep = self._connect(self._config)
        except Exception as e:
            self._failure = e if isinstance(e, StoreError) else StoreError(str(e))
            self._failed_at = time.monotonic()
            raise self._failure from e
        self._failure = None

    def taken(self, keys: list[str]) -> str | None:
        """Return the error of the first key that is in the store already. Any thread."""
        store = self._store
        if store is None:
            return None
        there = self._ask(lambda: store.batch_is_exist(keys), len(keys), "look")
        found = [key for key, status in zip(keys, there, strict=False) if status == 1]
        return _taken(found[0]) if found else None

    def write(self, groups: list[Objects], region: tuple[int, int]) -> list[str | None]:
        """Write each group whole or not at all; return why not, for each that failed.

        `region` is the address and the size of the memory that the bytes are in.
        """
        try:
            self.open()
            self._register(*region)
        except Exception as e:
            return [str(e) or type(e).__name__] * len(groups)
        self.remove([])
        errors: list[str | None] = [None] * len(groups)
        self._refuse_taken(groups, errors)
        self._clear(groups, errors)
        self._put(groups, errors)
        return errors

    def remove(self, groups: Iterable[Objects]) -> None:
        """Remove what these attempts have in the store; try again later what fails now."""
        self._leftovers += groups
        if self._store is None or not self._leftovers:
            return
        doubtful, owned = self._owned(self._leftovers)
        keys = [key for group in owned for key in group.keys]
        statuses = self._remove(keys)
        by_key = dict(zip(keys, statuses, strict=False))
        cleared = []
        for group in owned:
            if all(by_key[key] in _GONE for key in group.keys):
                cleared.append(group.marker)
            else:
                doubtful.append(group)
        self._leftovers = doubtful
        self._remove(cleared)
        if doubtful:
            logger.warning(
                "spec capture: could not remove the objects of %d requests yet",
                len(doubtful),
            )

    def release(self, groups: list[Objects]) -> None:
        """Let go of objects that the client has been told of: they are its own."""
        if self._store is not None and groups:
            _, owned = self._owned(groups)
            self._remove([group.marker for group in owned])

    def forget(self, pointer: int) -> None:
        """Unregister a region that is about to be freed."""
        if self._registered.pop(pointer, None) is not None and self._store is not None:
            self._store.unregister_buffer(pointer)

    def _register(self, pointer: int, size: int) -> None:
        if self._registered.get(pointer) == size:
            return
        self.forget(pointer)
        if (status := self._store.register_buffer(pointer, size)) != 0:
            # It tells where the memory is to the metadata server, which most often
            # is in the master's process.
            raise StoreError(
                "the store's metadata server does not answer, or it cannot read "
                f"{size} bytes of memory ({status})"
            )
        self._registered[pointer] = size

    def _refuse_taken(self, groups: list[Objects], errors: list[str | None]) -> None:
        # The store calls it a success to put an object that is there, and keeps the old.
        keys = [key for group in groups if not group.replace for key in group.keys]
        there = self._ask(lambda: self._store.batch_is_exist(keys), len(keys), "look")
        by_key = dict(zip(keys, there, strict=False))
        claimed: dict[str, bool] = {}
        for i, group in enumerate(groups):
            for key in group.keys:
                status = by_key.get(key, 0)
                if key in claimed:
                    errors[i] = f"{key} is being written by another request"
                elif status == 1:
                    errors[i] = _taken(key)
                elif status != 0:
                    errors[i] = f"could not look for {key}: {_why(status)}"
            if errors[i] is None:
                claimed.update(dict.fromkeys(group.keys, True))

    def _clear(self, groups: list[Objects], errors: list[str | None]) -> None:
        """Take out the marker of an earlier attempt, and what is to be replaced."""
        going = [i for i, g in enumerate(groups) if g.keys and errors[i] is None]
        keys = [groups[i].marker for i in going]
        keys += [key for i in going if groups[i].replace for key in groups[i].keys]
        by_key = dict(zip(keys, self._remove(keys), strict=False))
        for i in going:
            for key in (groups[i].marker, *groups[i].keys):
                # What a dead writer left unfinished cannot be removed: the put tells.
                if (status := by_key.get(key, 0)) not in (*_GONE, _UNFINISHED):
                    errors[i] = f"could not replace {key}: {_why(status)}"

    def _put(self, groups: list[Objects], errors: list[str | None]) -> None:
        going = [i for i, g in enumerate(groups) if g.keys and errors[i] is None]
        keys = [key for i in going for key in (*groups[i].keys, groups[i].marker)]
        pointers = [at for i in going for at in (*groups[i].pointers, groups[i].token_at)]
        sizes = [size for i in going for size in (*groups[i].sizes, len(groups[i].token))]
        statuses = self._ask(
            lambda: self._store.batch_put_from(keys, pointers, sizes, self._keep),
            len(keys),
            "write",
        )
        by_key = {**dict(zip(keys, statuses, strict=False)), **self._unreadable(keys, statuses)}
        undone: list[Objects] = []
        for i in going:
            written = (*groups[i].keys, groups[i].marker)
            failed = [key for key in written if by_key[key] != 0]
            if failed:
                errors[i] = f"could not write {failed[0]}: {_why(by_key[failed[0]])}"
                # An object that another writer began is that writer's.
                mine = [key for key in groups[i].keys if by_key[key] != _UNFINISHED]
                if by_key[groups[i].marker] != 0:
                    # Nothing can prove it later, but they were written just now.
                    self._remove([key for key in mine if by_key[key] == 0])
                undone.append(Objects(False, groups[i].prefix, mine))
                undone[-1].token = groups[i].token
        self.remove(undone)

    def _unreadable(self, keys: list[str], statuses: list[Any]) -> dict[str, Any]:
        # The store also calls it a success to put what another writer has begun: only
        # what can be read was written.
        put = [key for key, status in zip(keys, statuses, strict=False) if status == 0]
        there = self._ask(lambda: self._store.batch_is_exist(put), len(put), "look")
        return {
            key: status or _UNFINISHED
            for key, status in zip(put, there, strict=False)
            if status != 1
        }

    def _owned(self, groups: list[Objects]) -> tuple[list[Objects], list[Objects]]:
        """Return the groups of which the store does not tell, and those that have its marker.

        The others belong to a later attempt, or nothing is left of them.
        """
        markers = [group.marker for group in groups]
        there = self._ask(lambda: self._store.batch_is_exist(markers), len(markers), "look")
        asked = [g for g, status in zip(groups, there, strict=False) if status == 1]
        unknown = [g for g, status in zip(groups, there, strict=False) if status not in (0, 1)]
        found = self._ask(
            lambda: self._store.get_batch([group.marker for group in asked]),
            len(asked),
            "read",
        )
        owned = [group for group, token in zip(asked, found, strict=False) if token == group.token]
        # Of an object that it cannot read, the store gives no bytes.
        unread = [g for g, t in zip(asked, found, strict=False) if not t or isinstance(t, str)]
        return unknown + unread, owned

    def _remove(self, keys: list[str]) -> list[Any]:
        # force: a reader's lease must not keep what nobody may read.
        return self._ask(lambda: self._store.batch_remove(keys, True), len(keys), "remove")

    def _ask(self, call: Callable[[], Any], count: int, what: str) -> list[Any]:
        """Return the statuses of a call, one for each key whatever the store does."""
        if count == 0:
            return []
        try:
            statuses = list(call())
        except Exception as e:
            return [f"{what}: {type(e).__name__}: {e}"] * count
        if len(statuses) != count:
            return [f"{what}: {len(statuses)} answers for {count} keys"] * count
        return statuses


def _taken(key: str) -> str:
    return f"{key} is in the store already and replace is not set"


def _why(status: Any) -> str:
    if isinstance(status, str):
        return status
    return f"{_MEANING.get(status, 'the store failed')} ({status})"
