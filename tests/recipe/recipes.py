"""The K3 recipe and a site's values, and variants of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkgtools.recipe.load import Loaded, load_recipe
from pkgtools.recipe.plan import RuleFinding, check_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

K3: Final = Path(__file__).parents[2] / "docker/recipes/kimi-k3-capture.toml"
SMOKE: Final = K3.with_name("kimi-k3-smoke.toml")
SITE: Final = Path(__file__).with_name("site.toml")


@dataclass(frozen=True)
class Variant:
    """A recipe and its site file, each a copy of the K3's with some texts replaced."""

    recipe: Path
    site: Path

    def load(self) -> Loaded:
        return load_recipe(self.recipe, self.site)

    def finding(self, rule: str) -> RuleFinding:
        (finding,) = (f for f in check_plan(self.load()) if f.rule == rule)
        return finding


def write_variant(folder: Path, edits: Mapping[str, str], name: str = "recipe.toml") -> Variant:
    """Write a variant; each text stands in exactly one of the two files, once."""
    texts = {folder / name: K3.read_text(), folder / f"site-{name}": SITE.read_text()}
    for old, new in edits.items():
        (path,) = (path for path, text in texts.items() if old in text)
        assert texts[path].count(old) == 1, old
        texts[path] = texts[path].replace(old, new)
    for path, text in texts.items():
        path.write_text(text)
    return Variant(folder / name, folder / f"site-{name}")
