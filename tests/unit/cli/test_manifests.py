"""Manifests are read with positions, and each fault says file, line, object, field and the way out (CLI-13)."""

from pathlib import Path

import pytest

from nodewright.cli.manifests import ManifestError, read_manifests

GOOD = """\
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: demo
spec:
  packages:
    tuning:
      version: 1.2.3
      image: ghcr.io/x/tuning
"""
POLICY = """\
apiVersion: nodewright.nvidia.com/v1alpha1
kind: DeploymentPolicy
metadata: {name: slow}
spec:
  default: {budget: {count: 1}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "manifests.yaml"


def faults(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        read_manifests([str(file)])
    return str(caught.value)


def test_all_documents_of_a_file_are_read(file: Path) -> None:
    file.write_text(f"{GOOD}---\n{POLICY}---\n", encoding="utf-8")
    found = read_manifests([str(file)])
    assert list(found.nodewrights) == ["demo"]
    assert list(found.policies) == ["slow"]


def test_a_fault_names_the_line_of_its_field(file: Path) -> None:
    said = faults(file, GOOD.replace("1.2.3", "v1.2.3"))
    assert said.startswith(f"{file}:8: NodeWright demo: spec.packages[tuning].version:")
    assert "without a leading v" in said


def test_all_faults_are_told_at_once(file: Path) -> None:
    said = faults(file, GOOD.replace("1.2.3", "v1").replace("ghcr.io/x/tuning", "x:latest"))
    assert len(said.splitlines()) == 2


def test_text_that_is_no_yaml_has_a_line(file: Path) -> None:
    assert faults(file, f"{GOOD}  - [\n").startswith(f"{file}:")


def test_what_looks_like_a_date_stays_text(file: Path) -> None:
    file.write_text(GOOD + "      configMap: {day: 2026-01-01}\n", encoding="utf-8")
    assert read_manifests([str(file)]).nodewrights["demo"].packages["tuning"].config_map == {"day": "2026-01-01"}


def test_a_list_is_taken_apart(file: Path) -> None:
    item = "\n".join(f"  {line}" for line in GOOD.splitlines())
    file.write_text(f"kind: List\napiVersion: v1\nitems:\n-{item[1:]}\n", encoding="utf-8")
    assert list(read_manifests([str(file)]).nodewrights) == ["demo"]


def test_other_kinds_are_left_out_and_said(file: Path) -> None:
    file.write_text(f"{GOOD}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: x}}\n", encoding="utf-8")
    assert "Namespace x: left out" in read_manifests([str(file)]).notes[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (POLICY, "there is no NodeWright"),
        (GOOD.replace("nodewright.nvidia.com/", "skyhook.nvidia.com/"), "write nodewright.nvidia.com/v1alpha1"),
        (GOOD.replace("v1alpha1", "v2"), "write nodewright.nvidia.com/v1alpha1"),
        (GOOD.replace("  name: demo", "  labels: {}"), "metadata.name: is required"),
        (f"{GOOD}---\n{GOOD}", "is there twice"),
        ("- 1\n", "is not an object"),
    ],
)
def test_what_cannot_be_simulated_is_refused(file: Path, text: str, said: str) -> None:
    assert said in faults(file, text)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ManifestError, match=r"gone\.yaml: cannot be read: No such file"):
        read_manifests(["gone.yaml"])
