"""What `capture_gpu.py` found, as markdown, and what of it should not have been found."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def failures(found: dict[str, Any]) -> list[str]:
    """Return what a promise or a check of one says is wrong; no times are among it."""
    wrong = []
    off, made, held = found["off"], found["bytes"], found["pressure"]
    if off["capture"] is not None or off["hooks"] or off["layers"] or off["threads"]:
        wrong.append("capture that is off leaves something behind")
    if not off["same"]["off"] or off["same"]["on, captured"]:
        wrong.append("the kernels of a forward pass without capture are not the same")
    wrong += [f"wrong bytes: {name}" for name in ("small", "64K") if made[name]["wrong"]]
    wrong += [f"not seen: {name}" for name, m in made["mutants"].items() if not m["wrong"]]
    if held["admitted"] != 2 or not held["then_refused"] or held["device_kept_end"]:
        wrong.append("memory is not bounded")
    if held["device_kept_stalled"]:
        wrong.append("features stay on the device behind a store that stalls")
    if any(late["start"] >= early["stored"] for early, late in pairwise(found["timeline"])):
        wrong.append("a prefill waited for a transfer")
    return wrong


def report(found: dict[str, Any]) -> None:
    """Print everything, as markdown."""
    print(", ".join(f"{name} {value}" for name, value in found["versions"].items()))
    _bytes(found["bytes"])
    _overlap(found["overlap"])
    print("\n| next tokens to the host, ms | prefill's own | decode, median | decode, most |")
    print("|---|---|---|---|")
    for name, row in found["readback"].items():
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in row.values())} |")
    _timeline(found["timeline"])
    off = found["off"]
    print("\n| forward pass | kernels, copies and fills | the same |\n|---|---|---|")
    for name, count in off["kernels"].items():
        print(f"| {name} | {count} | {'yes' if off['same'][name] else 'no'} |")
    print(f"\nOff: {off['hooks']} hooks, {off['threads']} threads, {off['layers']} layers.")
    _memory(found["pressure"])
    for setting, seconds in found["pinned_s"].items():
        print(f"8 GiB of pinned memory, {setting or 'as PyTorch comes'}: {seconds:.1f} s")
    print("".join(f"\nWRONG: {what}" for what in failures(found)))


def _bytes(found: dict[str, Any]) -> None:
    print("\n| what the store is given | objects | wrong |\n|---|---|---|")
    rows = {"mixed batches": found["small"], "65,536 tokens": found["64K"]}
    for name, row in (rows | {f"mutant: {n}": m for n, m in found["mutants"].items()}).items():
        print(f"| {name} | {row['objects']} | {row['wrong']} |")


def _overlap(rows: list[dict[str, Any]]) -> None:
    print(
        "\n| tokens | GB | next prefill, ms | with a transfer beside it "
        "| transfer, GB/s | beside a prefill | plain copy | beside a prefill "
        "| hook, ms | begin, ms | first hook, ms |"
    )
    print("|" + "---|" * 11)
    for row in rows:
        rates = [
            row["bytes"] / 1e6 / row[name] for name in ("idle", "busy", "plain_idle", "plain_busy")
        ]
        cells = [
            f"{row['tokens']:,}",
            f"{row['bytes'] / 1e9:.2f}",
            f"{row['alone']:.1f}",
            f"{row['during']:.1f} ({row['during'] / row['alone']:.3f})",
            *(f"{rate:.1f}" for rate in rates),
            f"{row['hook']:.1f}",
            f"{row['begin']:.2f}",
            f"{row['first_hook']:,.0f}",
        ]
        print(f"| {' | '.join(cells)} |")


def _timeline(rows: list[dict[str, float]]) -> None:
    print("\n| prefill, ms | starts | features computed | on the host | in the store |")
    print("|---|---|---|---|---|")
    for number, row in enumerate(rows, 1):
        print(f"| {number} | {' | '.join(f'{at:,.0f}' for at in row.values())} |")
    joins = [late["start"] - early["computed"] for early, late in pairwise(rows)]
    print(f"\nFrom computed to the next start: {min(joins):.1f} to {max(joins):.1f} ms.")


def _memory(held: dict[str, Any]) -> None:
    gigabytes = {name: f"{value / 1e9:.2f} GB" for name, value in held.items()}
    print(
        f"Store stalled, {held['offered']} batches of {gigabytes['batch_bytes']} offered: "
        f"{held['admitted']} admitted, then {'refused' if held['then_refused'] else 'admitted'}; "
        f"pinned {gigabytes['slabs_bytes']}; device memory above a plain prefill's peak "
        f"{gigabytes['device_extra_peak']}, with the store stalled "
        f"{gigabytes['device_kept_stalled']}, at the end {gigabytes['device_kept_end']}."
    )
