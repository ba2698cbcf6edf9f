"""The 64K guards on a GPU: what fails without them, what holds with them, what they cost.

Needs torch, triton, a CUDA GPU with 24 GiB or more, and one SGLang tree in two states::

    python3 benchmarks/guards_gpu.py --unpatched TREE --patched TREE [--json FILE]

A tree is a source checkout (``TREE/python/sglang``) or an unpacked wheel
(``TREE/sglang``). SGLang is not installed and not imported: `checks/guards/kernels.py`
loads the guarded files with its imports stubbed. The top-k sums are SGLang's own
CUDA sources; building them needs nvcc, and apache-tvm-ffi for the fast one.

What may end a process runs in one of its own. The table of timings comes last.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
import triton

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "checks"))

from guards import kernels, topk_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    Call = Callable[[], object]

HIDDEN: Final = 7168
ROWS: Final = 8
"""Kimi K3's hidden size, and the snapshots in its bank at most."""
EPS: Final = 1e-5
TOKENS: Final = (1024, 4096, 16_384, 32_768, 65_536)
LAST_UNGUARDED: Final = 37_449
"""Tokens that 32-bit offsets reach with 8 snapshots of 7168 values."""
TOPK: Final = 8
_CUDA: Final[Any] = torch.cuda
"""Untyped, as its events are."""
SCALES: Final = (1e-36, 1e-30, 1e-10, 1e-3, 1.0, 1e6, 1e15, 1e18, 1e19, 1e25, 1e32, 1e38, 3.3e38)


def package(tree: Path) -> Path:
    """Return the `sglang` folder of a tree."""
    source = tree / "python" / "sglang"
    return source if source.is_dir() else tree / "sglang"


def attn_residual(tree: Path) -> ModuleType:
    """Load a tree's `attn_residual.py`."""
    path = package(tree) / kernels.ATTN_RESIDUAL.removeprefix("python/sglang/")
    return kernels.load_attn_residual(path.read_bytes())


def draw(tokens: int, rows: int = ROWS) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a random prefix [tokens, hidden], bank [tokens, rows, hidden] and score weight."""
    bank = torch.empty(tokens, rows, HIDDEN, dtype=torch.bfloat16, device="cuda").normal_()
    prefix = torch.empty(tokens, HIDDEN, dtype=torch.bfloat16, device="cuda").normal_()
    return prefix, bank, torch.randn(HIDDEN, device="cuda") * (3.0 / HIDDEN**0.5)


def sampled_error(
    mixed: torch.Tensor, prefix: torch.Tensor, bank: torch.Tensor, weight: torch.Tensor
) -> float:
    """Return the error of 128 tokens, the last ones among them, against float64."""
    count = len(mixed)
    some = torch.randint(0, count, (64,), device="cuda")
    some = torch.cat([some, torch.arange(max(0, count - 64), count, device="cuda")])
    expected = kernels.mixture(prefix[some], bank[some], bank.shape[1], weight, EPS)
    return kernels.relative_error(mixed[some], expected)


def child_offsets(tree: Path, tokens: int) -> dict[str, Any]:
    """Aggregate a whole prefill of 8 snapshots, on memory that held NaN before."""
    module = attn_residual(tree)
    prefix, bank, weight = draw(tokens)
    poison = torch.full_like(prefix, float("nan"))
    del poison
    mixed = module.aggregate_stream(prefix, bank, ROWS, *kernels.score_weights(weight, EPS))
    torch.cuda.synchronize()
    finite = bool(mixed.isfinite().all())
    return {"error": sampled_error(mixed, prefix, bank, weight), "finite": finite}


def child_topk(tree: Path, tokens: int) -> dict[str, Any]:
    """Run `fused_marlin_moe` around its reductions, which are SGLang's CUDA kernels."""
    fast = topk_sums.fast(package(tree))

    def reduce(call: kernels.Reduction) -> None:
        call.out.fill_(float("nan"))
        if call.name == "moe_topk_sum":
            fast(call.source, call.out)
        else:
            topk_sums.generic(package(tree))(call.source, call.out, call.factor)

    path = package(tree) / kernels.MARLIN_MOE.removeprefix("python/sglang/")
    marlin = kernels.load_marlin(path.read_bytes(), reduce)
    result = marlin.run(tokens, topk=TOPK, hidden=HIDDEN, device="cuda")
    torch.cuda.synchronize()
    call = marlin.calls[0]
    some = torch.cat([torch.randint(0, tokens, (64,)), torch.arange(tokens - 64, tokens)]).cuda()
    expected = call.source[some].double().sum(dim=1)
    finite = bool(result.isfinite().all())
    error = kernels.relative_error(result[some], expected)
    return {"called": call.name, "error": error, "finite": finite}


CHILDREN: Final = {"offsets": child_offsets, "topk": child_topk}


def run_child(name: str, tree: Path, tokens: int, environment: dict[str, str]) -> dict[str, Any]:
    """Run a child; return its numbers, or how it ended."""
    command = [sys.executable, __file__, "--child", name, str(tree), str(tokens)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | environment
    )
    if done.returncode == 0:
        numbers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return numbers
    lines = [line.strip().replace(f"{tree}/", "") for line in done.stderr.splitlines()]
    telling = [line for line in lines if "rror:" in line and "Compile with" not in line]
    return {"failed": (telling or lines or ["no word"])[-1], "exit": done.returncode}


def sweep(modules: Sequence[ModuleType]) -> list[dict[str, Any]]:
    """Return each module's error by the scale of the rows, and for rows of other kinds."""
    shape = (64, ROWS + 1, HIDDEN)
    weight = torch.randn(HIDDEN, device="cuda") * (3.0 / HIDDEN**0.5)

    def rows() -> torch.Tensor:
        size = 0.2 + 0.8 * torch.rand(shape, device="cuda")
        return size * (torch.randint(0, 2, shape, device="cuda") * 2 - 1)

    cases = {f"{scale:g}": rows() * scale for scale in SCALES}
    spread = 10.0 ** (torch.rand(shape, device="cuda") * 76 - 38)
    cases["1e-38 to 1e38 in a row"] = rows() * spread
    cases["1e-38 to 1e38 in a token"] = rows() * spread[..., :1]
    cases["1e20 and rows of zeros"] = rows() * 1e20
    cases["1e20 and rows of zeros"][:, ::3] = 0
    found = []
    for name, values in cases.items():
        bank, prefix = (v.bfloat16().contiguous() for v in (values[:, :ROWS], values[:, ROWS]))
        expected = kernels.mixture(prefix, bank, ROWS, weight, EPS)
        errors = [
            kernels.relative_error(
                m.aggregate_stream(prefix, bank, ROWS, *kernels.score_weights(weight, EPS)),
                expected,
            )
            for m in modules
        ]
        found.append({"rows": name, "unpatched": errors[0], "patched": errors[1]})
    return found


class Recorder:
    """A kernel that keeps its launches, so that they can be made again one by one."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.launches: list[Call] = []

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*arguments: Any, **options: Any) -> None:
            self.launches.append(lambda: self.kernel[grid](*arguments, **options))
            self.launches[-1]()

        return launch


def capture(calls: Sequence[Call]) -> Call:
    """Return what replays a graph of the calls, in which no launch waits for the CPU."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return functools.partial(_replay, graph, calls)


def _replay(graph: torch.cuda.CUDAGraph, _: Sequence[Call]) -> None:
    """Replay; the calls come along because they hold the tensors that the graph writes."""
    graph.replay()


def median_ms(works: Sequence[Call], calls: int, rounds: int = 15) -> list[float]:
    """Return the median milliseconds of one of the `calls` in each work; the works take turns."""
    events: list[list[tuple[Any, Any]]] = [[] for _ in works]
    for _ in range(rounds + 2):
        for work, mine in zip(works, events, strict=True):
            pair = (_CUDA.Event(enable_timing=True), _CUDA.Event(enable_timing=True))
            pair[0].record()
            work()
            pair[1].record()
            mine.append(pair)
    torch.cuda.synchronize()
    return [
        statistics.median(start.elapsed_time(end) / calls for start, end in mine[2:])
        for mine in events
    ]


def parts(
    module: ModuleType, windows: Sequence[tuple[torch.Tensor, torch.Tensor]], weight: torch.Tensor
) -> list[Call]:
    """Return replays of the score kernel, the combine kernel and the whole, over the windows."""
    weights = kernels.score_weights(weight, EPS)

    def whole(prefix: torch.Tensor, bank: torch.Tensor) -> object:
        return module._mix_fused(prefix, bank, bank.shape[1], *weights)  # noqa: SLF001

    names = ("_score_kernel", "_combine_kernel")
    recorders = [Recorder(getattr(module, name)) for name in names]
    for name, recorder in zip(names, recorders, strict=True):
        setattr(module, name, recorder)
    for window in windows:
        whole(*window)
    for name, recorder in zip(names, recorders, strict=True):
        setattr(module, name, recorder.kernel)
    every = [functools.partial(whole, *window) for window in windows]
    return [capture(recorders[0].launches), capture(recorders[1].launches), capture(every)]


def time_tokens(
    modules: Sequence[ModuleType], tokens: int, rows: int, scale: float = 1.0
) -> list[dict[str, Any]]:
    """Time both modules on the same tokens, over as many windows as keep the cache cold."""
    count = max(1, min(8, max(TOKENS) // 2 // tokens))
    prefix, bank, weight = draw(tokens * count, rows)
    prefix *= scale
    bank *= scale
    starts = range(0, tokens * count, tokens)
    windows = [(prefix[at : at + tokens], bank[at : at + tokens]) for at in starts]
    works = [work for module in modules for work in parts(module, windows, weight)]
    times = median_ms(works, count)
    read = tokens * (rows + 1) * HIDDEN * 2
    found = []
    for index, module in enumerate(modules):
        mixed = module._mix_fused(*windows[-1], rows, *kernels.score_weights(weight, EPS))  # noqa: SLF001
        score, combine, whole = times[3 * index : 3 * index + 3]
        found.append(
            {
                "score_ms": score,
                "combine_ms": combine,
                "whole_ms": whole,
                "score_tbs": read / score / 1e9,
                "error": sampled_error(mixed, *windows[-1], weight),
            }
        )
    return found


def copy_tbs() -> float:
    """Return what a device-to-device copy of 4 GB moves, read and written, in TB/s."""
    source = torch.empty(2**31, dtype=torch.bfloat16, device="cuda").normal_()
    target = torch.empty_like(source)
    (time,) = median_ms([lambda: target.copy_(source)], 1)
    moved: float = 2 * source.numel() * source.element_size() / time / 1e9
    return moved


def timings(modules: Sequence[ModuleType], *, far: bool) -> dict[str, Any]:
    """Time every number of tokens.

    `far` says whether the unpatched module reaches them all with 8 snapshots. If
    not, both are timed on 4 beyond its reach, and the patched one on 8 as well.
    """
    copy = copy_tbs()
    table: list[dict[str, Any]] = []
    for tokens in TOKENS:
        rows = ROWS if far or tokens <= LAST_UNGUARDED else ROWS // 2
        old, new = time_tokens(modules, tokens, rows)
        table.append({"tokens": tokens, "rows": rows, "unpatched": old, "patched": new})
        torch.cuda.empty_cache()
    if not far:
        (alone,) = time_tokens(modules[1:], TOKENS[-1], ROWS)
        table.append({"tokens": TOKENS[-1], "rows": ROWS, "unpatched": None, "patched": alone})
    (large,) = time_tokens(modules[1:], 32_768, ROWS, scale=1e30)
    return {"copy_tbs": copy, "table": table, "patched_at_1e30": large}


def versions() -> dict[str, str]:
    """Return what the numbers were measured with."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "GPU": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "CUDA": str(torch.version.cuda),
    }


def table_rows(found: dict[str, Any]) -> list[str]:
    """Return the timings as a markdown table, milliseconds, unpatched → patched (ratio)."""
    lines = [
        "| tokens | snapshots | score, ms | combine, ms | whole, ms | patched score, TB/s |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["table"]:
        old, new = row["unpatched"], row["patched"]
        cells = [f"{row['tokens']:,}", str(row["rows"])]
        for part in ("score_ms", "combine_ms", "whole_ms"):
            if old is None:
                cells.append(f"fails → {new[part]:.3f}")
            else:
                ratio = new[part] / old[part]
                cells.append(f"{old[part]:.3f} → {new[part]:.3f} ({ratio:.2f})")
        share = new["score_tbs"] / found["copy_tbs"]
        cells.append(f"{new['score_tbs']:.2f} ({share:.0%} of copy)")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def outcome(found: dict[str, Any]) -> str:
    """Return a child's result in words."""
    if "failed" in found:
        return str(found["failed"])
    called = f"{found['called']}, " if "called" in found else ""
    return f"{called}error {found['error']:.1e}{'' if found['finite'] else ', not finite'}"


def report(found: dict[str, Any]) -> None:
    """Print everything, as markdown."""
    print(", ".join(f"{name} {value}" for name, value in found["versions"].items()), end="\n\n")
    print("| in a process of its own | unpatched | patched |\n|---|---|---|")
    for row in found["children"]:
        print(f"| {row['what']} | {outcome(row['unpatched'])} | {outcome(row['patched'])} |")
    print("\n| scale of the rows | error, unpatched | error, patched |\n|---|---|---|")
    for row in found["sweep"]:
        print(f"| {row['rows']} | {row['unpatched']:.1e} | {row['patched']:.1e} |")
    times = found["timings"]
    large = times["patched_at_1e30"]
    print(f"\nDevice copy: {times['copy_tbs']:.2f} TB/s. Patched score kernel on 32,768 tokens of")
    print(f"scale 1e30, each row scanned twice: {large['score_ms']:.3f} ms.\n")
    print("\n".join(table_rows(times)))


def main() -> None:
    """Measure, print, and write the JSON that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--unpatched", type=Path, metavar="TREE")
    parser.add_argument("--patched", type=Path, metavar="TREE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers here")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, tree, tokens = options.child
        print(json.dumps(CHILDREN[name](Path(tree), int(tokens))))
        return
    if options.unpatched is None or options.patched is None:
        parser.error("give both trees")
    trees = {"unpatched": options.unpatched.resolve(), "patched": options.patched.resolve()}
    children = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {"TVM_FFI_CACHE_DIR": cache, "TORCH_EXTENSIONS_DIR": cache}
        for name, tokens in (
            ("offsets", 37_449),
            ("offsets", 65_536),
            ("topk", 65_535),
            ("topk", 65_536),
        ):
            row = {side: run_child(name, tree, tokens, environment) for side, tree in trees.items()}
            what = "aggregation" if name == "offsets" else "Marlin MoE's top-k sum"
            children.append({"what": f"{what}, {tokens:,} tokens", **row})
    modules = [attn_residual(tree) for tree in trees.values()]
    found = {
        "versions": versions(),
        "children": children,
        "sweep": sweep(modules),
        "timings": timings(modules, far="error" in children[1]["unpatched"]),
    }
    report(found)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
