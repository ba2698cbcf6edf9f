"""Credentials are found anywhere in a file, and never shown."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest
from commands import call
from recipes import write_variant

from pkgtools.recipe.secrets import find_secrets, secret_kind

if TYPE_CHECKING:
    from pathlib import Path

# Put together here, so that no scanner takes this file for a leak.
_WORD: Final = "Zq8" + "k3Vx" * 9
_HEX: Final = "9f" * 20
_FOUND: Final = [
    f'note = "hf_{_WORD}"',
    f"# remember: hf_{_WORD}",
    f'HF_TOKEN = "{_WORD}"',
    f'"HF_TOKEN" = "{_WORD}"',
    f'environment = {{ WANDB_API_KEY = "{_HEX}" }}',
    f'command = ["sh", "-c", "wandb login {_HEX}"]',
    f'command = ["serve", "--api-key", "{_WORD}"]',
    f'command = ["serve", "--api-key={_WORD}"]',
    f'command = ["sh", "-c", "serve --admin-api-key {_WORD}"]',
    f'command = ["env", "MY_PASSWORD={_WORD}"]',
    f"api_key: {_WORD}",
    f'api-key = "{_WORD}"',
    "AKIA" + "ABCDEFGH12345678",
    "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
    "ghp_" + _WORD,
    f"https://user:{_WORD}@index.invalid/simple",
    f"https://{_WORD}@index.invalid/simple",
    f'AWS_SECRET_ACCESS_KEY = "/{_WORD}"',
    'DB_PASSWORD = "$ecret"',
    'DB_PASSWORD = "31415926"',
]
_HARMLESS: Final = [
    "max-total-tokens = 66048",
    "skip-tokenizer-init = true",
    'secrets = ["HF_TOKEN", "WANDB_API_KEY", "RANK"]',
    'HF_TOKEN_FILE = "/run/secrets/hf"',
    'HF_TOKEN = "${HF_TOKEN}"',
    'HF_TOKEN = "$HF_TOKEN"',
    'HF_TOKEN = "${HF_TOKEN:?set it}"',
    'HF_TOKEN = "/run/secrets/hf"',
    'HF_TOKEN = "<yours>"',
    'image = "registry.invalid:5000/capture@sha256:1f0c"',
    'HF_TOKEN = ""',
    "# the token: from the environment",
    'revision = "cdd2e49a2c1cf8d4713b513955e415ed75405a72"',
    f'sha256 = "{_HEX}"',
    'metadata = "http://192.0.2.10:35880/metadata"',
    "eos-token = 2",
    'tokenizer-path = "/srv/tokenizer"',
]


@pytest.mark.parametrize("line", _FOUND)
def test_found(line: str) -> None:
    ((number, _),) = find_secrets(f"first\n{line}\nlast\n")
    assert number == 2


@pytest.mark.parametrize("line", _HARMLESS)
def test_harmless(line: str) -> None:
    assert list(find_secrets(line)) == []


@pytest.mark.parametrize("line", ["#" + "-" * 4000, "wandb" * 5000, "a_" * 20_000, "-a" * 20_000])
def test_a_long_line_is_searched_in_linear_time(line: str) -> None:
    start = time.process_time()
    assert list(find_secrets(line)) == []
    assert secret_kind(line, line) is None
    assert time.process_time() - start < 1


@pytest.mark.parametrize("verb", ["check", "render", "validate"])
@pytest.mark.parametrize(
    "line",
    [
        f'[trainer.environment]\nHF_TOKEN = "{_WORD}"',
        f'[trainer.environment]\n"HF\\u005fTOKEN" = "{_WORD}"',
        f'[trainer.environment]\nNOTE = "h\\u0066_{_WORD}"',
        f'[trainer.environment]\nNOTE = """\nhf_{_WORD}"""',
        f'hf_{_WORD} = "an unknown key"',
        f"# broken TOML [[[ hf_{_WORD}",
    ],
)
def test_a_credential_is_refused_and_never_shown(tmp_path: Path, verb: str, line: str) -> None:
    variant = write_variant(tmp_path, {})
    variant.site.write_text(f"{variant.site.read_text()}\n{line}\n")
    for more in ([], ["--json"]):
        step = ["--up-to", "plan"] if verb == "validate" else []
        done = call("recipe", verb, variant.recipe, "--site", variant.site, *step, *more)
        assert done.code == 8
        said = done.out + done.err
        assert str(variant.site) in said
        assert "the file contains" in said
        assert _WORD not in said
