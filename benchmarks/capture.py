"""What capture costs, and that a transfer goes on while the next prefill runs.

    PYTHONPATH=checks:tests python benchmarks/capture.py [--target v0.5.23] [--rounds 7]

A tiny Llama on the CPU and a Mooncake store whose memory is another process's, over TCP on
loopback: the numbers compare, and say nothing about a GPU. First requests a second, and the
processor time of one: with capture, without, and from a tree without the patches. The servers
take turns in every round, in an order that turns as well, and each is compared with the unpatched
one of its own round: what else the machine does shows as spread. Then a timeline of long prompts,
from the server's own log. With SGLANG_SPEC_CAPTURE_MAX_INFLIGHT=1 nothing overlaps.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from e2e.trees import Trees

from serving.entries import ask
from serving.models import write_llama
from serving.mooncake import Lender, Master, Reader
from serving.server import LLAMA_ARGUMENTS, LLAMA_CAPTURE, Server, greedy

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKENS: Final = 256
_CLIENTS: Final = 8
_LONG_TOKENS: Final = 1900
_LONG_REQUESTS: Final = 24
_UNPATCHED: Final = "unpatched"
_ALL: Final = "on, all captured"
_WHAT: Final = {
    _UNPATCHED: "unpatched",
    "off": "off",
    "on, nothing captured": "on",
    _ALL: "on",
}
"""What is measured, and on which server."""


def main() -> None:
    """Compare, in a folder that goes again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="v0.5.23")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        Master(Path(name)) as master,
        Lender(master, Path(name), 1 << 30),
        contextlib.closing(Reader(master)) as reader,
        contextlib.ExitStack() as stack,
    ):
        servers = {
            name: stack.enter_context(contextlib.closing(server))
            for name, server in _servers(Path(name), options.target, master)
        }
        _compare(servers, reader, options.target, options.rounds, options.seconds)
        _show_timeline(servers["on"], reader)


def _servers(folder: Path, target: str, master: Master) -> Iterator[tuple[str, Server]]:
    trees = Trees(folder / "trees")
    model = write_llama(folder / "llama")
    environment = {
        **master.environment(0),
        "MC_STORE_MEMCPY": "0",
        "SGLANG_SPEC_CAPTURE_LOG": "1",
    }
    pristine, patched = trees.pristine(target), trees.patched(target)
    yield "unpatched", Server(pristine, model, folder / "unpatched", LLAMA_ARGUMENTS)
    yield "off", Server(patched, model, folder / "off", LLAMA_ARGUMENTS)
    yield "on", Server(patched, model, folder / "on", LLAMA_CAPTURE, environment)


@dataclass(frozen=True)
class _Cost:
    rate: float
    """Requests that were answered in a second."""
    cpu: float
    """Milliseconds of processor time that the server took for one."""


def _compare(
    servers: dict[str, Server], reader: Reader, target: str, rounds: int, seconds: float
) -> None:
    costs: dict[str, list[_Cost]] = {what: [] for what in _WHAT}
    numbers = itertools.count()
    for a_round in range(rounds + 1):
        order = list(_WHAT)
        turn = a_round % len(order)
        for what in order[turn:] + order[:turn]:
            cost = _measure(servers[_WHAT[what]], seconds, numbers, capture=what == _ALL)
            reader.store.remove_all(True)
            if a_round:  # the first one warms up
                costs[what].append(cost)
    print(
        f"{target}: {_CLIENTS} clients, {_TOKENS} tokens each, {rounds} rounds of {seconds:g} s; "
        "median, and of the unpatched of the same round: median, least, most"
    )
    print(f"  {'':22}{'requests a second':^32}    {'CPU milliseconds a request':^32}")
    for what, measured in costs.items():
        rates, cpu = (
            _columns([of(cost) for cost in measured], [of(cost) for cost in costs[_UNPATCHED]])
            for of in (attrgetter("rate"), attrgetter("cpu"))
        )
        print(f"  {what:22}{rates}    {cpu}")


def _columns(measured: list[float], base: list[float]) -> str:
    shares = [one / other for one, other in zip(measured, base, strict=True)]
    return f"{statistics.median(measured):8.1f}" + "".join(
        f"{of(shares):8.1%}" for of in (statistics.median, min, max)
    )


def _measure(server: Server, seconds: float, numbers: Iterator[int], *, capture: bool) -> _Cost:
    begin, cpu = time.monotonic(), _cpu_seconds(server)

    def client(_: int) -> int:
        count = 0
        while time.monotonic() < begin + seconds:
            _request(server, next(numbers), _TOKENS, capture=capture)
            count += 1
        return count

    with ThreadPoolExecutor(_CLIENTS) as pool:
        answered = sum(pool.map(client, range(_CLIENTS)))
    return _Cost(
        answered / (time.monotonic() - begin), 1e3 * (_cpu_seconds(server) - cpu) / answered
    )


def _cpu_seconds(server: Server) -> float:
    """Return what all processes of the server have taken; see proc_pid_stat(5)."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # one that has ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) == server.process.pid:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _request(server: Server, number: int, tokens: int, *, capture: bool) -> None:
    """Send a prompt that is like no other from its start: nothing comes from the cache."""
    prompt = [3 + number % 250, 3 + number // 250 % 250, 3 + number // 62500]
    body: dict[str, Any] = {
        "input_ids": [*prompt, *(3 + i % 250 for i in range(tokens - len(prompt)))],
        "sampling_params": greedy(),
    }
    if capture:
        body["spec_capture"] = ask(str(number))
    result = server.generate(**body)["meta_info"].get("spec_capture")
    assert (result is not None) == capture, result
    assert result is None or "error" not in result, result


@dataclass(frozen=True)
class _Batch:
    """When what happened to it, in seconds."""

    prefill_begins: float
    prefill_ran: float
    copies_started: float
    transfer_begins: float
    written: float

    def overlap(self, later: _Batch) -> float:
        """Return for how long its transfer went on while the later one was prefilled."""
        return max(
            0.0,
            min(self.written, later.prefill_ran) - max(self.transfer_begins, later.prefill_begins),
        )


def _show_timeline(server: Server, reader: Reader) -> None:
    before = len(_batches(server))
    with ThreadPoolExecutor(_LONG_REQUESTS) as pool:
        list(
            pool.map(
                lambda number: _request(server, number, _LONG_TOKENS, capture=True),
                range(10**6, 10**6 + _LONG_REQUESTS),
            )
        )
    reader.store.remove_all(True)
    batches = _batches(server)[before:]
    pairs = list(itertools.pairwise(batches))
    overlaps = [early.overlap(late) for early, late in pairs]
    transfers = [early.written - early.transfer_begins for early, _ in pairs]
    print(
        f"\n{_LONG_REQUESTS} captured prompts of {_LONG_TOKENS} tokens in {len(batches)} batches: "
        f"{sum(overlap > 0 for overlap in overlaps)} of {len(pairs)} transfers went on while the "
        f"next batch was prefilled, for {sum(overlaps) / sum(transfers):.0%} of their time"
    )
    print("  batch   prefill, ms          transfer, ms         beside the next prefill, ms")
    zero = batches[0].prefill_begins
    for number, (batch, overlap) in enumerate(zip(batches, [*overlaps, None], strict=True)):
        ran, sent = (
            f"{(begins - zero) * 1e3:8.1f} to{(ends - zero) * 1e3:8.1f}"
            for begins, ends in (
                (batch.prefill_begins, batch.prefill_ran),
                (batch.transfer_begins, batch.written),
            )
        )
        beside = "" if overlap is None else f"{overlap * 1e3:8.1f}"
        print(f"  {number:5}{ran}  {sent}  {beside}")


def _batches(server: Server) -> list[_Batch]:
    """Return those that the server has logged, in their order."""
    logged = re.findall(r"spec capture job: ([\d. ]+)", server.process.log())
    return sorted(
        (_Batch(*map(float, line.split())) for line in logged), key=lambda b: b.prefill_begins
    )


if __name__ == "__main__":
    main()
