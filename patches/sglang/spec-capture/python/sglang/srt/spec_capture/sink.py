"""Writes objects to a Mooncake store: all of a request's, or none.

Nothing here raises for a store that fails: what is wrong is the result of the requests
that it befell. Every method is called by one thread only.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger(__name__)

_UNFINISHED = -703
_NOT_FOUND = -704
_MEANING = {
    -200: "the store has no room for it, or no memory yet",
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


class StoreError(RuntimeError):
    """Why nothing can be written at all."""


def _size(text: str) -> int:
    """Bytes of a size such as 1073741824, 16MB or 4 GB."""
    lowered = text.strip().lower()
    digits = lowered.rstrip("bkmgt ")
    unit = lowered[len(digits) :].strip()
    if unit not in _UNITS or not digits.isdecimal():
        raise ValueError(f"{text!r} is no size")
    return int(digits) * _UNITS[unit]


@dataclass(frozen=True)
class StoreConfig:
    """Mooncake's standard variables."""

    master: str
    metadata: str
    hostname: str
    protocol: str
    devices: str
    segment_bytes: int
    buffer_bytes: int

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "StoreConfig":
        """Read the variables.

        Raises:
            ValueError: there is no master, or a size is not one.

        """
        master = env.get("MOONCAKE_MASTER_SERVER_ADDR", "")
        if not master:
            raise ValueError(
                "spec capture writes to a Mooncake store: set "
                "MOONCAKE_MASTER_SERVER_ADDR to the host:port of its master"
            )
        sizes = {}
        for name, default in (
            ("MOONCAKE_GLOBAL_SEGMENT_SIZE", "4gb"),
            ("MOONCAKE_LOCAL_BUFFER_SIZE", "64mb"),
        ):
            try:
                sizes[name] = _size(env.get(name) or default)
            except ValueError as e:
                raise ValueError(f"{name}: {e}") from e
        return cls(
            master=master,
            metadata=env.get("MOONCAKE_METADATA_SERVER") or "P2PHANDSHAKE",
            hostname=env.get("MOONCAKE_LOCAL_HOSTNAME") or "localhost",
            protocol=env.get("MOONCAKE_PROTOCOL") or "tcp",
            devices=env.get("MOONCAKE_RDMA_DEVICES", ""),
            segment_bytes=sizes["MOONCAKE_GLOBAL_SEGMENT_SIZE"],
            buffer_bytes=sizes["MOONCAKE_LOCAL_BUFFER_SIZE"],
        )


@dataclass
class Objects:
    """What one request writes: keys, and where their bytes are."""

    replace: bool
    keys: list[str] = field(default_factory=list)
    pointers: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def add(self, key: str, pointer: int, size: int) -> None:
        """Add a key, and where its bytes are."""
        self.keys.append(key)
        self.pointers.append(pointer)
        self.sizes.append(size)


def connect_mooncake(config: StoreConfig) -> tuple[Any, Any]:
    """Return a client of the store, and how it is to keep objects.

    Raises:
        StoreError: Mooncake is not installed, or its master does not answer.

    """
    try:
        from mooncake.store import MooncakeDistributedStore, ReplicateConfig
    except ImportError as e:
        raise StoreError(f"Mooncake is not installed: {e}") from e
    _probe(config.master)
    store = MooncakeDistributedStore()
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
    keep = ReplicateConfig()
    keep.replica_num = 1
    # Nobody can make a sample a second time: eviction must not take it.
    keep.with_hard_pin = True
    return store, keep


def _probe(master: str) -> None:
    """Mooncake tries a dead master for 90 seconds; a TCP connection tells at once."""
    host, colon, port = master.rpartition(":")
    if not colon or not port.isdecimal() or "/" in master or "," in master:
        return  # not a plain address: a cluster's name
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_S).close()
    except OSError as e:
        raise StoreError(f"the store's master at {master} does not answer: {e}") from e


class MooncakeSink:
    """Writes the objects of one process to the store."""

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
        self._leftovers: set[str] = set()
        self._failure: StoreError | None = None
        self._failed_at = 0.0

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

    def write(self, groups: list[Objects], region: tuple[int, int]) -> list[str | None]:
        """Write each group whole or not at all; why not, for each that failed.

        `region` is the address and the size of the memory that the bytes are in.
        """
        try:
            self.open()
            self._register(*region)
        except Exception as e:
            return [str(e) or type(e).__name__] * len(groups)
        if self._leftovers:
            self.remove(list(self._leftovers))
        errors: list[str | None] = [None] * len(groups)
        self._clear_replaced(groups, errors)
        self._refuse_taken(groups, errors)
        self._put(groups, errors)
        return errors

    def remove(self, keys: Iterable[str]) -> None:
        """Take objects out of the store; what cannot be taken out now, later."""
        keys = list(keys)
        if not keys:
            return
        self._leftovers.update(keys)
        if self._store is None:
            return
        try:
            statuses = self._remove(keys)
        except Exception as e:
            logger.warning("spec capture: could not remove %d objects: %s", len(keys), e)
            return
        self._leftovers.difference_update(
            key for key, code in zip(keys, statuses, strict=False) if code in (0, _NOT_FOUND)
        )

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

    def _clear_replaced(self, groups: list[Objects], errors: list[str | None]) -> None:
        keys = [key for group in groups if group.replace for key in group.keys]
        if not keys:
            return
        statuses = self._ask(lambda: self._remove(keys), len(keys), "remove")
        by_key = dict(zip(keys, statuses, strict=False))
        for i, group in enumerate(groups):
            for key in group.keys if group.replace else ():
                # What a dead writer left unfinished cannot be removed: the put tells.
                if by_key[key] not in (0, _NOT_FOUND, _UNFINISHED):
                    errors[i] = f"could not replace {key}: {_why(by_key[key])}"

    def _refuse_taken(self, groups: list[Objects], errors: list[str | None]) -> None:
        # The store calls it a success to put an object that is there, and keeps the old.
        keys = [
            key
            for group, error in zip(groups, errors, strict=False)
            if error is None
            for key in group.keys
        ]
        if not keys:
            return
        there = self._ask(lambda: self._store.batch_is_exist(keys), len(keys), "look")
        by_key = dict(zip(keys, there, strict=False))
        claimed: set[str] = set()
        for i, group in enumerate(groups):
            if errors[i] is not None:
                continue
            for key in group.keys:
                if key in claimed:
                    errors[i] = f"{key} is being written by another request"
                elif by_key[key] == 1:
                    errors[i] = f"{key} is in the store already and replace is not set"
                elif by_key[key] != 0:
                    errors[i] = f"could not look for {key}: {_why(by_key[key])}"
            if errors[i] is None:
                claimed.update(group.keys)

    def _put(self, groups: list[Objects], errors: list[str | None]) -> None:
        going = [i for i, error in enumerate(errors) if error is None]
        keys = [key for i in going for key in groups[i].keys]
        pointers = [pointer for i in going for pointer in groups[i].pointers]
        sizes = [size for i in going for size in groups[i].sizes]
        if not keys:
            return
        statuses = self._ask(
            lambda: self._store.batch_put_from(keys, pointers, sizes, self._keep),
            len(keys),
            "write",
        )
        by_key = {**dict(zip(keys, statuses, strict=False)), **self._unreadable(keys, statuses)}
        undone: list[str] = []
        for i in going:
            failed = [key for key in groups[i].keys if by_key[key] != 0]
            if failed:
                errors[i] = f"could not write {failed[0]}: {_why(by_key[failed[0]])}"
                undone.extend(k for k in groups[i].keys if by_key[k] != _UNFINISHED)
            else:
                self._leftovers.difference_update(groups[i].keys)
        self.remove(undone)

    def _unreadable(self, keys: list[str], statuses: list[Any]) -> dict[str, Any]:
        # The store also calls it a success to put what another writer has begun: only
        # what can be read was written.
        put = [key for key, status in zip(keys, statuses, strict=False) if status == 0]
        if not put:
            return {}
        there = self._ask(lambda: self._store.batch_is_exist(put), len(put), "look")
        return {
            key: status or _UNFINISHED
            for key, status in zip(put, there, strict=False)
            if status != 1
        }

    def _remove(self, keys: list[str]) -> list[int]:
        # force: a reader's lease must not keep what nobody may read.
        return list(self._store.batch_remove(keys, True))

    def _ask(self, call: Callable[[], Any], count: int, what: str) -> list[Any]:
        """Return the statuses of a call, one for each key whatever the store does."""
        try:
            statuses = list(call())
        except Exception as e:
            return [f"{what}: {type(e).__name__}: {e}"] * count
        if len(statuses) != count:
            return [f"{what}: {len(statuses)} answers for {count} keys"] * count
        return statuses


def _why(status: Any) -> str:
    if isinstance(status, str):
        return status
    return f"{_MEANING.get(status, 'the store failed')} ({status})"
