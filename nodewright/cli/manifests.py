"""Reads manifests and says what is wrong with them, with line numbers, before anything else looks at them.

Multi-document YAML or JSON, `-` is standard input, a directory stands for its files, Lists are taken apart. The faults are those of
`api.validation`, which admission uses too, and what `kubectl apply` refuses: unknown fields, and a key twice. Relies on PyYAML for
positions; `nodewright simulate` relies on it.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from nodewright.api import keys
from nodewright.api.deployment_policy import DeploymentPolicySpec, parse_policy_spec
from nodewright.api.nodewright import NodeWrightSpec, parse_nodewright_spec
from nodewright.api.shape import Fault
from nodewright.api.validation import check_nodewright, check_policy
from nodewright.cli.unknown_fields import unknown_fields

SUFFIXES: Final = (".yaml", ".yml", ".json")
"""Of the files that a directory stands for."""
_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], list[Fault]]]] = {
    keys.NODEWRIGHT_KIND: check_nodewright,
    keys.DEPLOYMENT_POLICY_KIND: check_policy,
}


class ManifestError(ValueError):
    """The manifests cannot be used; the message has a line for each fault: where, which object, which field, what to do."""


class _Loader(yaml.SafeLoader):
    """Plain JSON values: what looks like a date stays text, and a key twice is refused, as kubectl has it."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key.value!r} is there twice in the same object", key.start_mark
                )
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a file. `source` is the file's name as given."""

    source: str
    line: int
    fields: dict[str, Any]
    _node: yaml.Node

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.fields.get("kind", ""))

    @property
    def name(self) -> str:
        """Its name."""
        metadata = self.fields.get("metadata")
        return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""

    def line_of(self, path: str) -> int:
        """The line of a field path, or of the nearest field around it."""
        return _line_of(self._node, _steps(path)) or self.line

    def told(self, path: str, message: str) -> str:
        """One line about a field."""
        where = f"{self.source}:{self.line_of(path)}"
        return f"{where}: {self.kind or 'object'} {self.name or '(no name)'}: {message}"


@dataclass(frozen=True, slots=True)
class Manifests:
    """What the files hold: the objects in order, and a note for each thing that was left out."""

    nodewrights: dict[str, NodeWrightSpec] = field(default_factory=dict)
    policies: dict[str, DeploymentPolicySpec] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_manifests(files: Iterable[str]) -> Manifests:
    """Read and check all files.

    Raises:
        ManifestError: a file cannot be read, an object is faulty, or there is no NodeWright; all faults at once.
    """
    found, faults = Manifests(), []
    for file in _one_by_one(files):
        source, text = _read(file)
        for document in _documents(source, text):
            faults += _take(found, document)
    if not faults and not found.nodewrights:
        faults.append(f"there is no {keys.NODEWRIGHT_KIND} in {', '.join(files)}; give a manifest with one")
    if faults:
        raise ManifestError("\n".join(faults))
    return found


def _one_by_one(files: Iterable[str]) -> Iterator[str]:
    for file in files:
        if file == "-" or not Path(file).is_dir():
            yield file
            continue
        inside = sorted(str(path) for path in Path(file).iterdir() if path.suffix in SUFFIXES and path.is_file())
        if not inside:
            raise ManifestError(f"{file}: has no files that end in {', '.join(SUFFIXES)}; give a file with manifests")
        yield from inside


def _read(file: str) -> tuple[str, str]:
    try:
        if file == "-":
            return "stdin", sys.stdin.read()
        return file, Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ManifestError(
            f"{file}: cannot be read: {reason}; give a file with manifests, or - for standard input"
        ) from error


def _documents(source: str, text: str) -> Iterator[Document]:
    loader = None
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            fields = loader.construct_document(node)
            if node is not None and fields is not None:
                yield from _taken_apart(source, node, fields)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise ManifestError(f"{source}{line}: is not YAML: {problem}") from error
    except RecursionError as error:
        raise ManifestError(f"{source}: is nested too deeply; no manifest is") from error
    finally:
        if loader is not None:
            loader.dispose()


def _taken_apart(source: str, node: yaml.Node, fields: Any) -> Iterator[Document]:
    line = node.start_mark.line + 1
    if not isinstance(fields, dict):
        raise ManifestError(f"{source}:{line}: is not an object; a manifest has apiVersion, kind, metadata and spec")
    if fields.get("kind") == "List" and isinstance(fields.get("items"), list):
        items = _child(node, "items")
        nodes = items.value if isinstance(items, yaml.SequenceNode) else []
        for item, value in zip(nodes, fields["items"], strict=False):
            yield from _taken_apart(source, item, value)
        return
    yield Document(source, line, fields, node)


def _take(found: Manifests, document: Document) -> list[str]:
    """Put a document where it belongs; its faults, if it has any."""
    api_version = str(document.fields.get("apiVersion", ""))
    group = api_version.rpartition("/")[0]
    check = _CHECKS.get(document.kind)
    if group != keys.GROUP and (check is None or group != "skyhook.nvidia.com"):
        if check is not None:
            return [document.told("apiVersion", f"apiVersion: {api_version!r} is not known; write {keys.API_VERSION}")]
        found.notes.append(document.told("kind", "left out: only NodeWright and DeploymentPolicy are simulated"))
        return []
    if check is None:
        return [document.told("kind", f"kind: {document.kind!r} is not known; write {' or '.join(_CHECKS)}")]
    if api_version != keys.API_VERSION:
        return [document.told("apiVersion", f"apiVersion: {api_version!r} is not known; write {keys.API_VERSION}")]
    if not document.name:
        return [document.told("metadata", "metadata.name: is required")]
    taken: Mapping[str, object] = found.nodewrights if check is check_nodewright else found.policies
    if document.name in taken:
        return [document.told("metadata.name", "is there twice; give each object a name of its own")]
    faults = [*check(document.fields), *unknown_fields(document.kind, document.fields)]
    if faults:
        return [document.told(fault.path, str(fault)) for fault in faults]
    spec = document.fields.get("spec") or {}
    parsed = parse_nodewright_spec(spec) if check is check_nodewright else parse_policy_spec(spec)
    if isinstance(parsed, NodeWrightSpec):
        found.nodewrights[document.name] = parsed
    elif isinstance(parsed, DeploymentPolicySpec):
        found.policies[document.name] = parsed
    found.documents.append(document)
    return []


# --- positions -------------------------------------------------------------------------------------------------------


def _steps(path: str) -> list[str]:
    """`spec.packages[a.b].version` as its steps: what stands in brackets is one step, whatever is in it."""
    steps, word, depth = [], "", 0
    for letter in path:
        if letter == "[" and depth == 0:
            steps.append(word)
            word, depth = "", 1
        elif letter == "]" and depth == 1:
            steps.append(word)
            word, depth = "", 0
        elif letter == "." and depth == 0:
            steps.append(word)
            word = ""
        else:
            word += letter
    return [step for step in (*steps, word) if step]


def _line_of(node: yaml.Node, steps: list[str]) -> int:
    line = 0
    for step in steps:
        found = _key(node, step)
        if found is None:
            break
        key, node = found
        line = key.start_mark.line + 1
    return line


def _child(node: yaml.Node, step: str) -> yaml.Node | None:
    found = _key(node, step)
    return None if found is None else found[1]


def _key(node: yaml.Node, step: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Key and value of a mapping, or an item of a sequence twice."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == step:
                return key, value
    elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        item = node.value[int(step)]
        return item, item
    return None
