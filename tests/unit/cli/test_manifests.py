"""Manifests are read with positions, and each fault says file, line, object, field and the way out (CLI-13)."""

from pathlib import Path

import pytest
import yaml

from nodewright.cli.manifests import ManifestError, read_manifests
from nodewright.cli.unknown_fields import unknown_fields

SAMPLES = Path(__file__).parents[3] / "deploy" / "samples"

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("packages:", "interruptionBudgets: {count: 1}\n  packages:"),
         ":6: NodeWright demo: spec.interruptionBudgets: is not a field; write interruptionBudget"),
        (GOOD + "      verson: 1.2.3\n", ":10: NodeWright demo: spec.packages[tuning].verson: is not a field; write version"),
        (GOOD.replace("spec:", "  lables: {}\nspec:"), "metadata.lables: is not a field; write labels"),
        (POLICY.replace("count", "zzz") + "---\n" + GOOD, "spec.default.budget.zzz: is not a field; there are "),
        (GOOD + "      image: other\n", ":10: is not YAML: 'image' is there twice in the same object"),
        ("a\0b: 1\n", "is not YAML: special characters are not allowed"),
    ],
)  # fmt: skip
def test_what_kubectl_apply_would_refuse_is_refused(file: Path, text: str, said: str) -> None:
    """A misspelt budget would be dropped without a word, and the rollout would not be the one that was asked for."""
    assert said in faults(file, text)


def test_no_field_of_a_sample_is_unknown() -> None:
    for sample in sorted(SAMPLES.glob("*.yaml")):
        for document in yaml.safe_load_all(sample.read_text(encoding="utf-8")):
            assert unknown_fields(document["kind"], document) == []


def test_a_directory_stands_for_its_files(tmp_path: Path) -> None:
    for name, text in (("b.yml", POLICY), ("a.yaml", GOOD), ("readme.md", "no YAML: [")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [document.kind for document in read_manifests([str(tmp_path)]).documents] == [
        "NodeWright",
        "DeploymentPolicy",
    ]


def test_a_directory_without_manifests_is_said(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"has no files that end in \.yaml, \.yml, \.json"):
        read_manifests([str(tmp_path)])


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ManifestError, match=r"gone\.yaml: cannot be read: No such file"):
        read_manifests(["gone.yaml"])
