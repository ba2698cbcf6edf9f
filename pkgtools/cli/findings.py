"""The outcome of a check in the formats of continuous integration.

They are made from what ``--json`` prints. Files are those of the catalog, relative to its
repository, so that a forge can show a finding beside the line that it is about.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from pkgtools import __version__
from pkgtools.catalog import load_catalog
from pkgtools.errors import PkgtoolsError

_LINE: Final = re.compile(r"line (\d+): ")
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 excludes, even escaped (https://www.w3.org/TR/xml/#charsets)."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    name: str
    code: str = "ok"
    message: str | None = None
    """None if it passed."""
    is_warning: bool = False
    file: str | None = None
    """Relative to the repository of the catalog."""
    line: int | None = None
    seconds: float | None = None


def render(kind: str, verb: str, raw: bytes, catalog: Path) -> str:
    """Return what a check printed with ``--json`` as ``github``, ``junit`` or ``sarif``."""
    finder = _FindingReader(catalog)
    findings = list(finder.findings(msgspec.json.decode(raw), verb))
    if kind == "github":
        return "".join(_annotation(f) for f in findings if f.message is not None)
    return junit(verb, findings) if kind == "junit" else _sarif(findings, finder.root_file)


class _FindingReader:
    def __init__(self, catalog: Path) -> None:
        self._catalog = catalog
        top = catalog.resolve().parent
        around = (folder for folder in (top, *top.parents) if (folder / ".git").exists())
        self._root = next(around, top)
        self.root_file = self._relative(str(catalog))

    def findings(self, facts: Any, verb: str) -> Iterator[Finding]:
        if isinstance(facts, dict) and "error" in facts:
            yield from self._of_error(facts["error"], verb)
        elif isinstance(facts, list):
            for each in facts:
                if "error" in each:
                    yield from self._of_error(each["error"], each["target"])
                else:
                    yield from self._of_outcome(each)
        else:
            yield Finding(verb)

    def _of_error(self, error: dict[str, Any], verb: str) -> Iterator[Finding]:
        details = error["details"] if isinstance(error["details"], dict) else {}
        for fault in details.get("faults", ()):
            is_text = isinstance(fault, str)
            text, file = (
                (fault, details.get("file")) if is_text else (fault["message"], fault["file"])
            )
            number = int(line[1]) if (line := _LINE.match(text)) else None
            yield Finding(verb, error["code"], text, file=self._relative(file), line=number)
        if details.get("rejections"):
            yield from self._of_refusal(verb, error["code"], details)
        elif not details.get("faults"):
            file, line = self._relative(details.get("file")) or self.root_file, details.get("line")
            yield Finding(verb, error["code"], _with_remedy(error), file=file, line=line)

    def _of_outcome(self, facts: dict[str, Any]) -> Iterator[Finding]:
        """Yield the outcome of one target of ``verify``, or one revision of ``lock --check``."""
        outcome = facts.get("outcome")
        revision = f" ({facts['revision'][:12]})" if facts["revision"] else ""
        name = f"{facts['target']}{revision}"
        if outcome == "refused" and (facts.get("refusal") or {}).get("rejections"):
            yield from self._of_refusal(name, outcome, facts["refusal"])
        elif outcome in ("refused", "unverified"):
            message = _with_remedy(facts)
            is_warning = outcome == "unverified"
            yield Finding(name, outcome, message, is_warning=is_warning, file=self.root_file)
        else:
            yield Finding(name)

    def _of_refusal(self, name: str, code: str, refusal: dict[str, Any]) -> Iterator[Finding]:
        paths = self._patches(refusal["target"])
        for rejection in refusal["rejections"]:
            message = f"{rejection['path']}: {rejection['message']}"
            file = paths.get(rejection["patch"], self.root_file)
            yield Finding(name, code, message, file=file, line=rejection["patch_line"])

    def _patches(self, target: str) -> dict[str, str | None]:
        try:
            patches = load_catalog(self._catalog).target(target).series.patches
        except PkgtoolsError:
            return {}
        return {p.name: self._relative(str(p.path)) for p in patches if p.path is not None}

    def _relative(self, file: str | None) -> str | None:
        """Return a file's path in the repository, or None where it is outside."""
        if file is None:
            return None
        path = Path(file).resolve()
        inside = path.is_relative_to(self._root)
        return path.relative_to(self._root).as_posix() if inside else None


def _with_remedy(facts: dict[str, Any]) -> str:
    message = facts.get("message") or "no source is at hand"
    return f"{message}; next: {facts['remedy']}" if facts.get("remedy") else str(message)


def _annotation(finding: Finding) -> str:
    """Return a workflow command, as ``command.ts`` of https://github.com/actions/toolkit does."""
    facts = {"file": finding.file, "line": finding.line, "title": finding.name}
    words = ",".join(f"{key}={_escaped(str(fact), ':,')}" for key, fact in facts.items() if fact)
    return f"::{_level(finding)} {words}::{_escaped(finding.message or '')}\n"


def _level(finding: Finding) -> str:
    return "warning" if finding.is_warning else "error"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def junit(verb: str, findings: Sequence[Finding]) -> str:
    """Return a test report with a case for each name."""
    suites = ET.Element("testsuites")
    suite = ET.SubElement(suites, "testsuite", name=f"pkgtools {verb}")
    for name in dict.fromkeys(f.name for f in findings):
        group = [f for f in findings if f.name == name]
        case = ET.SubElement(suite, "testcase", classname=f"pkgtools.{verb}", name=_xml(name))
        if times := [f.seconds for f in group if f.seconds is not None]:
            case.set("time", f"{sum(times):.3f}")
        wrong = [f for f in group if f.message is not None]
        if wrong and all(f.is_warning for f in wrong):
            ET.SubElement(case, "skipped", message=_xml(wrong[0].message or ""))
        elif wrong:
            facts = {"type": wrong[0].code, "message": _xml(wrong[0].message or "")}
            failure = ET.SubElement(case, "failure", facts)
            failure.text = "\n".join(_xml(f"{_place(f)}{f.message}") for f in wrong)
    counts = {"tests": "testcase", "failures": "testcase/failure", "skipped": "testcase/skipped"}
    for name, path in counts.items():
        suite.set(name, str(len(suite.findall(path))))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=False) + "\n"


def _place(finding: Finding) -> str:
    if finding.file is None:
        return ""
    return f"{finding.file}:{finding.line}: " if finding.line else f"{finding.file}: "


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _sarif(findings: Sequence[Finding], fallback: str | None) -> str:
    """Return a log of SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/)."""
    wrong = [f for f in findings if f.message is not None]
    results = []
    for finding in wrong:
        place: dict[str, Any] = {"artifactLocation": {"uri": finding.file or fallback or ""}}
        if finding.line:
            place["region"] = {"startLine": finding.line}
        results.append(
            {
                "ruleId": finding.code,
                "level": _level(finding),
                "message": {"text": f"{finding.name}: {finding.message}"},
                "locations": [{"physicalLocation": place}],
            }
        )
    driver = {
        "name": "pkgtools",
        "version": __version__,
        "rules": [{"id": code} for code in sorted({f.code for f in wrong})],
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"
