"""The rules of the config plan: functions of a recipe that run without a machine.

A rule returns what it found and what it computed from it. `RULES` says why each matters. A
rule that needs a value that the site lacks is open.
"""

import ipaddress
import itertools
import re
from typing import Final

from pkgtools.recipe.gpu_rules import GPU_RULES
from pkgtools.recipe.model import Node, Recipe, shown_bytes, size_bytes
from pkgtools.recipe.rule import RuleResult, rule

RENDEZVOUS: Final = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK")
"""Variables that torchrun and similar launchers set for each rank."""
_DIGEST: Final = re.compile(r"\S+@sha256:[0-9a-f]{64}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_GRPC_OFFSET: Final = 10_000
"""SGLang takes the port that is so much further on as well."""
_RESERVED_TOKENS: Final = 6
"""SGLang answers rows of fewer tokens than the smaller limit less this (tp_worker.py)."""
_DOCKER_BRIDGE: Final = ipaddress.ip_network("172.17.0.0/16")


@rule("image", "a tag can move: two starts of one recipe could run different images")
def _image(recipe: Recipe) -> RuleResult:
    said = {"image": recipe.image, "trainer.image": recipe.trainer.image}
    images = {key: image for key, image in said.items() if image is not None}
    tags = [key for key, image in images.items() if not _DIGEST.fullmatch(image)]
    found = ", ".join(f"{key} {image}" for key, image in images.items()) or "no image"
    if tags:
        return RuleResult(False, found, f"{' and '.join(tags)}: a tag, not a digest")
    return RuleResult(True if len(images) == 2 else None, found, "pinned by digest")


@rule("model.revision", "a result can be reproduced only from known inputs")
def _artifacts(recipe: Recipe) -> RuleResult:
    revision = recipe.model.revision
    pins = {"model": revision, "dataset": recipe.dataset.sha256}
    if recipe.draft is not None:
        pins["draft"] = recipe.draft.sha256
    found = ", ".join(f"{name} {(pin or 'not pinned')[:12]}" for name, pin in pins.items())
    if revision is not None and not _COMMIT.fullmatch(revision):
        return RuleResult(False, found, f"{revision!r} is not a 40-digit commit: it can move")
    loose = [name for name, pin in pins.items() if pin is None]
    computed = f"no revision or digest: {', '.join(loose)}" if loose else "all pinned"
    return RuleResult(None if loose else True, found, computed)


@rule(
    "store.segment", "objects are pinned: a full store refuses the next sample, it evicts nothing"
)
def _object_size(recipe: Recipe) -> RuleResult:
    layers, tokens = len(recipe.server.layer_ids), recipe.dataset.longest_row
    sample, held = recipe.sample_bytes, recipe.samples_in_flight
    whole = (held + recipe.batches_in_flight) * sample
    segment, buffer = recipe.lent_bytes, size_bytes(recipe.store.buffer)
    found = f"segment {shown_bytes(segment)}, buffer {recipe.store.buffer}"
    computed = (
        f"({layers} + 1) x {recipe.model.hidden_size} x {tokens} x "
        f"{recipe.row_bytes // recipe.model.hidden_size} bytes = {shown_bytes(sample)} a sample; "
        f"{held} waiting and {recipe.batches_in_flight} being written = {shown_bytes(whole)}"
    )
    if whole > segment:
        return RuleResult(False, found, f"{computed}, more than the segment")
    if recipe.object_bytes <= buffer:
        return RuleResult(True, found, computed)
    if recipe.store.zero_copy:
        return RuleResult(True, found, f"{computed}; objects go past the buffer, uncopied")
    largest = shown_bytes(recipe.object_bytes)
    return RuleResult(False, found, f"{computed}; an object of {largest} passes the buffer")


@rule(
    "master.lease_seconds",
    "a lease that ends during a transfer frees the memory that is being read",
)
def _lease(recipe: Recipe) -> RuleResult:
    lease, timeout = recipe.master.lease_seconds, recipe.store.transfer_timeout_seconds
    rate, readers = recipe.link.gigabits_per_second, recipe.trainer.ranks
    found = f"lease {lease} s, transfer timeout {timeout} s, link {rate or 'not given'} Gbit/s"
    whole = readers * recipe.sample_bytes
    if timeout > lease:
        return RuleResult(False, found, "a transfer may run on after its lease has ended")
    if rate is None:
        least = whole * 8 / min(lease, timeout) / 1e9
        return RuleResult(None, found, f"{shown_bytes(whole)} need {least:.3g} Gbit/s")
    seconds = whole * 8 / (rate * 1e9)
    computed = f"{readers} ranks reading at once: {shown_bytes(whole)} take {seconds:.3g} s"
    return RuleResult(seconds <= min(lease, timeout), found, computed)


@rule(
    "capture_node.memory",
    "each lending rank lends a segment, so the node needs memory for all of them",
)
def _memory(recipe: Recipe) -> RuleResult:
    store, node = recipe.store, recipe.capture_node
    lent = store.lenders_per_node * (size_bytes(store.segment) + size_bytes(store.buffer))
    # PyTorch rounds pinned memory up to a power of two.
    staging = recipe.batches_in_flight * (1 << (recipe.sample_bytes - 1).bit_length())
    total = lent + staging
    found = (
        f"{store.lenders_per_node} x (segment {store.segment} + buffer {store.buffer}), "
        f"memory {node.memory or 'not given'}"
    )
    computed = f"{shown_bytes(lent)} and {shown_bytes(staging)} to copy to = {shown_bytes(total)}"
    if node.memory is None:
        return RuleResult(None, found, computed)
    return RuleResult(total <= size_bytes(node.memory), found, computed)


@rule(
    "capture_node.bind_address",
    "Mooncake publishes the first address that it finds; no other node can read from a bridge's",
)
def _bind_address(recipe: Recipe) -> RuleResult:
    nodes = {"capture_node": recipe.capture_node, "trainer_node": recipe.trainer_node}
    found = ", ".join(
        f"{name} binds {node.bind_address or 'nothing'} of {len(node.interfaces or [])} interfaces"
        for name, node in nodes.items()
    )
    apart = recipe.capture_node.address != recipe.trainer_node.address
    problems = {name: _bind_problem(node, apart=apart) for name, node in nodes.items()}
    wrong = [f"{name}: {problem}" for name, problem in problems.items() if problem]
    if wrong:
        return RuleResult(False, found, "; ".join(wrong))
    said = all(node.bind_address and node.interfaces and node.address for node in nodes.values())
    return RuleResult(True if said else None, found, "the other node reaches each")


def _bind_problem(node: Node, *, apart: bool) -> str:
    interfaces = node.interfaces or []
    if node.bind_address is None:
        return "several interfaces and no bind_address" if len(interfaces) > 1 else ""
    try:
        address = ipaddress.ip_address(node.bind_address)
    except ValueError:
        return f"{node.bind_address!r} is not an IP address"
    if interfaces and node.bind_address not in interfaces:
        return f"{address} is not an address of this node"
    if apart and address.is_loopback:
        return f"{address} is loopback: the other node does not reach it"
    unroutable = address.is_unspecified or address.is_link_local or address.is_multicast
    if unroutable or address in _DOCKER_BRIDGE:
        return f"{address} is not routable from the other node"
    try:
        published = ipaddress.ip_address(node.address or node.bind_address)
    except ValueError:
        return ""  # a host's name
    return "" if published == address else f"it binds {address} and publishes {published}"


@rule("server.port", "the second to start fails, or talks to the first")
def _ports(recipe: Recipe) -> RuleResult:
    master, port = recipe.master, recipe.server.port
    ports = {
        "master.rpc_port": master.rpc_port,
        "master.metadata_port": master.metadata_port,
        "master.metrics_port": master.metrics_port,
        "server.port": port,
        "the server's gRPC port": port + _GRPC_OFFSET,
    }
    found = ", ".join(f"{name} {number}" for name, number in ports.items())
    pairs = itertools.combinations(ports.items(), 2)
    twice = [f"{one} and {other}" for (one, a), (other, b) in pairs if a == b]
    if port + _GRPC_OFFSET > 65535:
        twice.append(f"the server takes {port + _GRPC_OFFSET} too, which is above 65535")
    return RuleResult(not twice, found, "; ".join(twice) or "all different, on one node")


@rule("server.flags.chunked-prefill-size", "capture needs the whole sequence in one prefill")
def _prefill(recipe: Recipe) -> RuleResult:
    if not recipe.server.has("enable-spec-capture"):
        return RuleResult(False, "enable-spec-capture is not given", "the server captures nothing")
    size = recipe.server.flags.get("chunked-prefill-size", "is not given")
    computed = "the whole row is one prefill" if size == -1 else "it has to be -1"
    return RuleResult(size == -1, f"chunked-prefill-size {size}", computed)


@rule(
    "server.flags.context-length",
    "a row that does not fit is cut or refused, maybe after hours of shorter rows",
)
def _limits(recipe: Recipe) -> RuleResult:
    row = recipe.dataset.longest_row
    limits = {n: recipe.server.number(n) for n in ("context-length", "max-total-tokens")}
    found = ", ".join(f"{name} {value or 'not given'}" for name, value in limits.items())
    if None in limits.values():
        return RuleResult(False, found, "both have to be given, or memory decides them at start")
    least = row + _RESERVED_TOKENS + 1
    computed = f"the longest row has {row} tokens: at least {least}"
    return RuleResult(all(v is not None and v >= least for v in limits.values()), found, computed)


@rule(
    "server.flags.spec-capture-method",
    "another method's states have the same shape and are not what the draft is trained on",
)
def _method(recipe: Recipe) -> RuleResult:
    method, hooks = recipe.server.method, recipe.model.hooks
    found = f"method {method}, the model has hooks for {', '.join(hooks) or 'none'}"
    if method not in hooks:
        return RuleResult(False, found, f"the model has no hook for {method}")
    if "dspark" in hooks and method != "dspark":
        return RuleResult(False, found, f"{method} does not capture what the dspark hook does")
    return RuleResult(True, found, "its hook is called")


@rule(
    "server.flags.spec-capture-aux-layer-ids",
    "the server refuses a missing layer only after it has loaded the weights",
)
def _layers(recipe: Recipe) -> RuleResult:
    ids, depth = recipe.server.layer_ids, recipe.model.layers
    last = depth - 1 if recipe.server.method == "dspark" else depth - 2
    found = f"layers {' '.join(map(str, ids)) or 'not given'} of {depth}"
    if not ids:
        return RuleResult(False, found, "the object size depends on them")
    outside = [i for i in ids if not 0 <= i <= last]
    if outside:
        return RuleResult(False, found, f"{outside} are not in 0 to {last}")
    return RuleResult(ids == sorted(set(ids)), found, f"in 0 to {last}, ascending, none twice")


@rule(
    "trainer.low_watermark",
    "with fewer samples in flight than a step takes, producer and consumers deadlock",
)
def _watermark(recipe: Recipe) -> RuleResult:
    trainer = recipe.trainer
    low, high, step = trainer.low_watermark, trainer.high_watermark, trainer.optimizer_step
    found = f"low watermark {low}, high {high or 'not given'}, optimizer step {step}"
    if low < step:
        return RuleResult(False, found, "a step never fills")
    if high is not None and high < low:
        return RuleResult(False, found, "the producer would pause below where it goes on")
    return RuleResult(True, found, "enough in flight for a step")


@rule(
    "trainer.resident_high_watermark",
    "a trainer takes whole steps: a producer that pauses within a step never resumes",
)
def _resident(recipe: Recipe) -> RuleResult:
    trainer, segment = recipe.trainer, recipe.lent_bytes
    step, sample = trainer.optimizer_step, recipe.sample_bytes
    marks = (trainer.resident_low_watermark, trainer.resident_high_watermark)
    low, high = (size_bytes(mark) if mark else None for mark in marks)
    found = f"low {marks[0] or 'not given'}, high {marks[1] or 'not given'}"
    whole = step * sample
    computed = f"{step} x {shown_bytes(sample)} = {shown_bytes(whole)} a step"
    if whole > segment:
        computed += f", more than the segment of {shown_bytes(segment)}"
        return RuleResult(False, found, computed)
    if high is None:
        computed = computed if low is None else "a low watermark needs a high one"
        return RuleResult(low is None, found, computed)
    # The last sample passes the mark; a step goes at once, as a whole.
    left = high + sample - whole
    problems = (
        (high < whole, "the producer pauses before a step is whole"),
        (high + recipe.batches_in_flight * sample > segment, "the store is full before"),
        (low is not None and low > high, "the low watermark is above the high one"),
        (low is not None and left > low, f"{shown_bytes(left)} stay, so it never goes on"),
    )
    wrong = [text for holds, text in problems if holds]
    return RuleResult(not wrong, found, "; ".join([computed, *wrong]))


@rule(
    "trainer.environment",
    "variables of another launcher make the ranks wait for processes that do not exist",
)
def _rendezvous(recipe: Recipe) -> RuleResult:
    given = {*recipe.trainer.environment, *recipe.trainer.secrets}
    names = [name for name in RENDEZVOUS if name in given]
    computed = f"{', '.join(RENDEZVOUS)} are unset before the trainer starts"
    return RuleResult(not names, ", ".join(names) or "none of them set", computed)


RULES: Final = (
    _image,
    _artifacts,
    _object_size,
    _lease,
    _memory,
    _bind_address,
    _ports,
    _prefill,
    _limits,
    _method,
    _layers,
    _watermark,
    _resident,
    *GPU_RULES,
    _rendezvous,
)
