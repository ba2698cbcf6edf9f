"""SBOM, VEX and provenance: valid, true, and the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commands import call, python
from cyclonedx.model.bom import Bom
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from project import lock_all
from vexipy.document import Document

from image.building import SYSTEM, write_base
from pkgtools.build.clock import wheel_date
from pkgtools.source import WheelSource

if TYPE_CHECKING:
    from commands import Result
    from project import Project

    from image.images import Entry

_PURL = "pkg:pypi/widget-kit@1.0"


def valid_sbom(data: bytes) -> dict[str, Any]:
    """Return a bill of materials that CycloneDX's own schema and library take."""
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode())
    assert error is None, error
    facts: dict[str, Any] = json.loads(data)
    Bom.from_json(facts)  # type: ignore[attr-defined]
    return facts


def valid_statement(data: bytes) -> dict[str, Any]:
    """Return a statement that has what in-toto v1 and SLSA provenance v1 require."""
    facts: dict[str, Any] = json.loads(data)
    assert facts["_type"] == "https://in-toto.io/Statement/v1"
    assert facts["predicateType"] == "https://slsa.dev/provenance/v1"
    for subject in facts["subject"]:
        assert re.fullmatch("[0-9a-f]{64}", subject["digest"]["sha256"])
    definition = facts["predicate"]["buildDefinition"]
    assert {"buildType", "externalParameters"} <= set(definition)
    assert ":" in definition["buildType"]
    assert ":" in facts["predicate"]["runDetails"]["builder"]["id"]
    for resource in definition["resolvedDependencies"]:
        assert re.fullmatch("[0-9a-f]{64}", resource["digest"]["sha256"])
    # The published definitions of both; a field that they lack is an error.
    statement = json_format.ParseDict(facts, statement_pb2.Statement())
    Statement.copy_from_pb(statement).validate()
    json_format.ParseDict(facts["predicate"], provenance_pb2.Provenance())
    return facts


def valid_vex(data: bytes) -> dict[str, Any]:
    """Return a document that has what OpenVEX v0.2.0 requires."""
    facts: dict[str, Any] = json.loads(data)
    assert facts["@context"] == "https://openvex.dev/ns/v0.2.0"
    assert {"@id", "author", "timestamp", "version", "statements"} <= set(facts)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", facts["timestamp"])
    for statement in facts["statements"]:
        assert {"vulnerability", "products", "status"} <= set(statement)
    assert len(Document.from_json(data.decode()).statements) == len(facts["statements"])
    return facts


_SCANNED = """
import json, sys
from lib4sbom.parser import SBOMParser
from lib4vex.parser import VEXParser
sbom, vex = SBOMParser(), VEXParser(vex_type="openvex")
sbom.parse_file(sys.argv[1])
vex.parse(sys.argv[2])
packages = [(p["name"], p["version"]) for p in sbom.get_packages()]
fixed = [(v["id"], v["product"], v["status"]) for v in vex.get_vulnerabilities()]
print(json.dumps([packages, fixed]))
"""


def scanned(sbom: str, vex: str) -> Any:
    """Return the packages and vulnerabilities that the readers of a scanner find."""
    return json.loads(python(_SCANNED, sbom, vex))


def with_headers(project: Project, where: Path, headers: str) -> Path:
    """Copy the catalog with headers in the first patch of w-1.0."""
    targets = project.copy_catalog(where)
    path = next((targets.parent / "patches/widget/v1.0").glob("0001*"))
    path.write_text(path.read_text().replace("Upstream-Status: Pending\n", headers))
    lock_all(targets, project.repository, project)
    return targets


def build(project: Project, targets: Path, where: Path) -> Result:
    done = call(
        *("build", "wheel", "--target", "w-1.0", "--wheel", project.wheel("1.0"), "--json"),
        *("--catalog", targets, "-o", where / "dist", "--attest", where / "attest"),
    )
    assert done.code == 0, done.err
    return done


def sbom_of(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if "/sboms/" in n)
        assert name.endswith(".dist-info/sboms/pkgtools.cdx.json")
        return archive.read(name)


def test_a_wheel_has_its_patches_in_its_sbom(project: Project, tmp_path: Path) -> None:
    headers = (
        "Upstream-Status: Backport [https://git.example.invalid/widget/1]\n"
        "Bug: https://git.example.invalid/widget/2\nCVE: CVE-2026-1234 CVE-2026-5678\n"
    )
    targets = with_headers(project, tmp_path / "catalog", headers)
    built = build(project, targets, tmp_path).facts
    facts = valid_sbom(sbom_of(Path(built["path"])))
    assert facts["metadata"]["component"]["name"] == Path(built["path"]).name
    (component,) = facts["components"]
    assert component["purl"] == f"{_PURL}%2B{built['version'].partition('+')[2]}"
    (ancestor,) = component["pedigree"]["ancestors"]
    digest = hashlib.sha256(project.wheel("1.0").read_bytes()).hexdigest()
    assert (ancestor["purl"], ancestor["hashes"][0]["content"]) == (_PURL, digest)
    patches = component["pedigree"]["patches"]
    folder = targets.parent / "patches/widget/v1.0"
    names = (folder / "series").read_text().split()
    texts = [patch["diff"]["text"]["content"] for patch in patches]
    assert texts == [(folder / name).read_text() for name in names]
    assert [patch["type"] for patch in patches] == ["backport", "unofficial", "unofficial"]
    found = [(issue["type"], issue["id"]) for issue in patches[0]["resolves"]]
    assert found == [
        ("security", "CVE-2026-1234"),
        ("security", "CVE-2026-5678"),
        ("defect", "https://git.example.invalid/widget/2"),
    ]


def test_the_files_of_a_wheel(project: Project, tmp_path: Path) -> None:
    targets = with_headers(project, tmp_path / "catalog", "CVE: cve-2026-1234, CVE-2026-1234\n")
    built = build(project, targets, tmp_path).facts
    wheel = Path(built["path"])
    files = {Path(path).name.removeprefix(f"{wheel.name}."): path for path in built["attestations"]}
    assert sorted(files) == ["cdx.json", "intoto.json", "openvex.json"]
    assert Path(files["cdx.json"]).read_bytes() == sbom_of(wheel)

    statement = valid_statement(Path(files["intoto.json"]).read_bytes())
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": wheel.name, "digest": {"sha256": digest}}]
    resolved = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    patches = (targets.parent / "patches/widget/v1.0").glob("*.patch")
    assert {r["name"]: r["digest"]["sha256"] for r in resolved} == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (project.wheel("1.0"), *patches)
    }

    assert scanned(files["cdx.json"], files["openvex.json"]) == [
        [["widget-kit", built["version"]]],
        [["CVE-2026-1234", "widget-kit", "fixed"]],
    ]

    document = valid_vex(Path(files["openvex.json"]).read_bytes())
    (said,) = document["statements"]
    assert (said["vulnerability"]["name"], said["status"]) == ("CVE-2026-1234", "fixed")
    assert said["products"][0]["hashes"] == {"sha-256": digest}
    assert document["timestamp"] == "2020-01-02T03:04:06Z"  # the newest member of the wheel


def test_a_mention_of_a_cve_is_not_a_fix(project: Project, tmp_path: Path) -> None:
    headers = "This is unlike CVE-2026-1234.\nSee CVE: CVE-2026-1234.\nUpstream-Status: Pending\n"
    targets = with_headers(project, tmp_path / "catalog", headers)
    built = build(project, targets, tmp_path).facts
    suffixes = [path.rpartition(".whl.")[2] for path in built["attestations"]]
    assert suffixes == ["cdx.json", "intoto.json"]


def test_the_same_build_has_the_same_bytes(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = with_headers(project, tmp_path / "catalog", "CVE: CVE-2026-1234\n")
    made = []
    for name in ("one", "two"):
        build(project, targets, tmp_path / name)
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        folder = tmp_path / name / "attest"
        made.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert made[0] == made[1]
    assert len(made[0]) == 3
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    build(project, targets, tmp_path / "three")
    (document,) = (tmp_path / "three/attest").glob("*.openvex.json")
    assert valid_vex(document.read_bytes())["timestamp"] == "1970-01-01T00:00:00Z"
    wheels = [next((tmp_path / name / "dist").glob("*.whl")) for name in ("one", "three")]
    assert wheels[0].read_bytes() == wheels[1].read_bytes()


def test_a_wheel_whose_members_have_no_date(project: Project) -> None:
    """A zip file can have the 0th day of the 0th month."""
    upstream = project.catalog().upstreams[0]
    with WheelSource(project.wheel("1.0"), upstream) as wheel:
        for info in wheel.members():
            info.date_time = (1980, 0, 0, 0, 0, 0)
        assert wheel_date(wheel) == datetime(1980, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["gzip", "archive"])
def test_the_files_of_an_image(
    kind: str, project: Project, widget: list[Entry], tmp_path: Path
) -> None:
    targets = with_headers(project, tmp_path / "catalog", "CVE: CVE-2026-1234\n")
    base = write_base(tmp_path / "base", [SYSTEM, widget], kind)
    done = call(
        *("build", "image", "--target", "w-1.0", "--base", base, "--json"),
        *("--catalog", targets, "--attest", tmp_path / "attest"),
    )
    assert done.code == 0, done.err
    built = done.facts
    digest = (built["digest"] or built["id"]).removeprefix("sha256:")
    sbom, statement, document = (Path(path).read_bytes() for path in built["attestations"])
    facts = valid_sbom(sbom)
    assert facts["metadata"]["component"]["name"] == built["reference"]
    path, _, vex = built["attestations"]
    name = built["reference"].rpartition("/")[2].partition(":")[0]
    assert scanned(path, vex) == [[["widget-kit", "1.0"]], [["CVE-2026-1234", name, "fixed"]]]
    assert [c["purl"] for c in facts["components"]] == [_PURL]
    assert len(facts["components"][0]["pedigree"]["patches"]) == 3
    said = valid_statement(statement)
    assert said["subject"] == [{"name": built["reference"], "digest": {"sha256": digest}}]
    (fixed,) = valid_vex(document)["statements"]
    (product,) = fixed["products"]
    assert product["@id"].startswith("pkg:oci/")
    assert product["@id"].endswith(f"@sha256%3A{digest}")
    assert product["subcomponents"] == [{"@id": _PURL}]


def test_a_folder_that_cannot_be_written(project: Project, tmp_path: Path) -> None:
    (tmp_path / "attest").write_bytes(b"in the way")
    done = call(
        *("build", "wheel", "--target", "w-1.0", "--wheel", project.wheel("1.0")),
        *("--catalog", project.targets, "-o", tmp_path, "--attest", tmp_path / "attest"),
    )
    assert done.code == 7
    assert "--attest" in done.err
