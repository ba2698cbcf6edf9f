"""A Mooncake store on this machine: its master, and clients that only lend or only read."""

from __future__ import annotations

import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from .process import Process, free_port

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

_SEGMENT: Final = 64 << 20
_BUFFER: Final = 64 << 20


class Master:
    """The master, with the metadata server that clients find each other through."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.rpc_port, self.metadata_port, metrics_port = (free_port() for _ in range(3))
        self._log = folder / "mooncake_master.log"
        self._command = [
            program("mooncake_master"),
            "--logtostderr=1",
            "--rpc_address=127.0.0.1",
            f"--rpc_port={self.rpc_port}",
            "--enable_http_metadata_server=true",
            "--http_metadata_server_host=127.0.0.1",
            f"--http_metadata_server_port={self.metadata_port}",
            f"--metrics_port={metrics_port}",
            *arguments,
        ]
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.rpc_port}"

    @property
    def metadata(self) -> str:
        return f"http://127.0.0.1:{self.metadata_port}/metadata"

    def environment(self, segment: int = _SEGMENT) -> dict[str, str]:
        """Return the variables with which a server lends `segment` bytes and writes."""
        return {
            "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1",
            "MOONCAKE_METADATA_SERVER": self.metadata,
            "MOONCAKE_MASTER_SERVER_ADDR": self.address,
            "MOONCAKE_PROTOCOL": "tcp",
            "MC_TCP_BIND_ADDRESS": "127.0.0.1",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": str(segment),
            "MOONCAKE_LOCAL_BUFFER_SIZE": str(_BUFFER),
        }

    def start(self) -> None:
        self._process = Process(self._command, self._log)
        self._process.wait_until(self._answers, 30)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def pause(self) -> None:
        """Stop it in its tracks: connections stay, nothing answers."""
        assert self._process is not None
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send(signal.SIGCONT)

    def _answers(self) -> bool:
        return all(map(_is_listening, (self.rpc_port, self.metadata_port)))


class Lender:
    """A process that lends memory to the store, so that objects outlive who wrote them."""

    def __init__(self, master: Master, folder: Path, segment: int = _SEGMENT) -> None:
        port = free_port()
        self._process = Process(
            [
                program("mooncake_client"),
                "--host=127.0.0.1",
                f"--port={port}",
                "--protocol=tcp",
                f"--global_segment_size={segment}",
                f"--master_server_address={master.address}",
                f"--metadata_server={master.metadata}",
            ],
            folder / "mooncake_client.log",
            {"MC_TCP_BIND_ADDRESS": "127.0.0.1"},
        )
        self._process.wait_until(lambda: _is_listening(port), 30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()

    def pause(self) -> None:
        """Stop it in its tracks: what is written to it neither arrives nor fails."""
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send(signal.SIGCONT)


class Store(Protocol):
    """Where a master is."""

    @property
    def address(self) -> str: ...

    @property
    def metadata(self) -> str: ...


class Reader:
    """What a trainer does: reads objects of up to `buffer` bytes, lends nothing."""

    def __init__(self, master: Store, buffer: int = _BUFFER) -> None:
        from mooncake.store import MooncakeDistributedStore  # noqa: PLC0415

        self.store: Any = MooncakeDistributedStore()
        status = self.store.setup(
            "127.0.0.1", master.metadata, 0, buffer, "tcp", "", master.address
        )
        assert status == 0, f"no connection to {master.address} ({status})"

    def exists(self, *keys: str) -> list[bool]:
        return [status == 1 for status in self.store.batch_is_exist(list(keys))]

    def is_unfinished(self, *keys: str) -> bool:
        """Say whether a writer has begun all of these objects and finished none."""
        return list(self.store.batch_remove(list(keys), True)) == [-703] * len(keys)

    def read(self, key: str, shape: list[int], dtype: str) -> NDArray[Any]:
        """Return an object as the response describes it; bfloat16 comes as float32."""
        import numpy as np  # noqa: PLC0415 - only who reads needs it

        raw = self.store.get(key)
        assert raw, f"{key} is not in the store"
        if dtype == "bfloat16":
            bits = np.frombuffer(raw, "<u2").astype("<u4") << 16
            return bits.view("<f4").reshape(shape)
        return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(shape)

    def close(self) -> None:
        self.store.close()


def _is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def program(name: str) -> str:
    """Find a program that came with a package of this environment, active or not."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or name
