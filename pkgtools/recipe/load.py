"""Reading a recipe and the site file that completes it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from pkgtools.catalog.tomlfile import TomlFile, message_and_key
from pkgtools.errors import CheckFailedError
from pkgtools.recipe.model import Recipe, Server, Trainer
from pkgtools.recipe.secrets import find_secrets, secret_kind

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FLAG: Final = re.compile(r"[a-z][a-z0-9-]*")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.:_-]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN_FLAGS: Final = {"model-path": "model.path", "host": "capture_node", "port": "server.port"}
"""Flags that a recipe states in a typed field instead."""
_OWN_VARIABLES: Final = {
    "MOONCAKE_MASTER_SERVER_ADDR": "capture_node and master.rpc_port",
    "MOONCAKE_METADATA_SERVER": "capture_node and master.metadata_port",
    "MOONCAKE_LOCAL_HOSTNAME": "the node's address",
    "MOONCAKE_PROTOCOL": "store.protocol",
    "MOONCAKE_RDMA_DEVICES": "store.rdma_devices",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "store.segment",
    "MOONCAKE_LOCAL_BUFFER_SIZE": "store.buffer",
    "MC_TCP_BIND_ADDRESS": "the node's bind_address",
    "DISAGG_SERVER_URLS": "capture_node and server.port",
    "MC_TRANSFER_TIMEOUT": "store.transfer_timeout_seconds",
}
"""Variables that come from a typed key of the recipe."""


@dataclass(frozen=True)
class SecretPlace:
    """The place of a credential, and its kind."""

    where: str
    kind: str


@dataclass(frozen=True)
class Loaded:
    """A recipe, and the files that it was read from."""

    recipe: Recipe
    files: tuple[TomlFile, ...]
    """The recipe, and the site file where one was given."""

    @property
    def path(self) -> Path:
        """The recipe's file."""
        return self.files[0].path

    def place(self, key: str) -> str:
        """Return ``file:line`` of a key (``server.flags``), or of the table that it belongs to."""
        file = _file_of(self.files, f".{key}")
        return f"{file.path}:{file.line_of(f'.{key}')}"


def load_recipe(path: Path, site: Path | None = None) -> Loaded:
    """Read a recipe and its site file.

    A site file adds what the recipe leaves out. It cannot change a value.

    Raises:
        CheckFailedError: a file contains a credential.
        MalformedError: with the file, the key and the line.
    """
    files = tuple(TomlFile(p) for p in (path, site) if p is not None)
    for file in files:
        for line, kind in find_secrets(file.text):
            _refuse_secret(f"{file.path}:{line}", kind)
    tables = [file.decode(dict[str, Any]) for file in files]
    for file, table in zip(files, tables, strict=True):
        _check_texts(file, table)
    raw = _merge(files, tables[0], tables[1], "") if site else tables[0]
    try:
        recipe = msgspec.convert(raw, Recipe)
    except msgspec.ValidationError as error:
        message, key = message_and_key(error)
        _file_of(files, key).fail(message, key)
    for key, message in _faults(recipe):
        _file_of(files, key).fail(message, key)
    return Loaded(recipe, files)


def _file_of(files: tuple[TomlFile, ...], key: str) -> TomlFile:
    """Return the file that sets a key; the recipe, if both do."""
    whole = key.partition("[")[0]  # the items of a list share its line
    return next((file for file in files if file.has(whole)), files[0])


def _refuse_secret(where: str, kind: str) -> NoReturn:
    raise CheckFailedError(
        f"{where}: the file contains {kind} (not shown here)",
        remedy="take it out of the file and of its history, revoke it, and name the variable "
        "under trainer.secrets: its value comes from where the trainer is started",
        details=SecretPlace(where, kind),
    )


def _merge(
    files: tuple[TomlFile, ...], recipe: dict[str, Any], site: dict[str, Any], at: str
) -> dict[str, Any]:
    merged = dict(recipe)
    for name, value in site.items():
        key = f"{at}.{name}"
        if name not in merged:
            merged[name] = value
        elif isinstance(merged[name], dict) and isinstance(value, dict):
            merged[name] = _merge(files, merged[name], value, key)
        else:
            files[1].fail(f"{files[0].path} sets it already; a site file only adds values", key)
    return merged


def _check_texts(file: TomlFile, table: dict[str, Any]) -> None:
    """Refuse credentials that are written with escapes, and control characters."""
    for key, name, text in _texts(table, "", ""):
        if kind := secret_kind(name, text):
            _refuse_secret(f"{file.path}:{file.line_of(key)}", kind)
        if not text.isprintable():
            file.fail("it contains a control character, such as a line end", key)


def _texts(value: object, key: str, name: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield key, name, value
    elif isinstance(value, dict):
        for inner, item in value.items():
            yield f"{key}.{inner}", "", inner
            yield from _texts(item, f"{key}.{inner}", inner)
    elif isinstance(value, list):
        before = ""
        for item in value:
            yield from _texts(item, key, before)
            is_option = isinstance(item, str) and item.startswith("--")
            before = item if is_option else ""  # its value may be the next word


def _faults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield each key with a fault that the types of `Recipe` do not exclude, and the fault."""
    if not _NAME.fullmatch(recipe.name):
        yield ".name", "use letters, digits and . _ - only"
    for name, node in (("capture", recipe.capture_node), ("trainer", recipe.trainer_node)):
        if node.address is not None and not _ADDRESS.fullmatch(node.address):
            yield f".{name}_node.address", "not an IP address or a host name"
    for flag, value in recipe.server.flags.items():
        key = f".server.flags.{flag}"
        if not _FLAG.fullmatch(flag):
            yield key, f"invalid flag {flag!r}: write it without --"
        if flag in _OWN_FLAGS:
            yield key, f"it comes from {_OWN_FLAGS[flag]}"
        if value == []:
            yield key, "empty list: leave the flag out"
    processes: dict[str, Server | Trainer] = {"server": recipe.server, "trainer": recipe.trainer}
    for table, process in processes.items():
        for variable in process.environment:
            key = f".{table}.environment.{variable}"
            if not _VARIABLE.fullmatch(variable):
                yield key, f"invalid variable name {variable!r}"
            if variable in _OWN_VARIABLES:
                yield key, f"it comes from {_OWN_VARIABLES[variable]}"
            if variable == "CUDA_VISIBLE_DEVICES" and process.gpus is not None:
                yield key, f"it comes from {table}.gpus"
        if process.command is not None and not (process.command and process.command[0]):
            yield f".{table}.command", "the command has no program"
    if not all(map(_VARIABLE.fullmatch, recipe.trainer.secrets)):
        yield ".trainer.secrets", "give names of variables, not values"
