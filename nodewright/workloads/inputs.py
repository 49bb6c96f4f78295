"""What a Job was made from, as two hashes written on it at creation, and whether that still matches the spec (JOB-10).

The live pod template is never compared: the API server and admission add defaults, rewrite images and inject sidecars.
The hashes are of what the spec says, with quantities by value and objects by content, so that another spelling of the
same is no change. Pure; the Job bodies and the engine rely on it.
"""

import hashlib
from functools import lru_cache
from typing import Final

import msgspec

from nodewright.api import keys
from nodewright.api.nodewright import Package, Resources
from nodewright.api.quantities import Quantity, QuantityError, parse_quantity
from nodewright.model.objects import Job
from nodewright.model.snapshot import PlanSettings
from nodewright.workloads.identity import Same

_DIGEST_LENGTH: Final = 16
_CACHED_PACKAGES: Final = 512


class Inputs(msgspec.Struct, frozen=True):
    """The two hashes, of the package's version, image, env, resources and `agentImageOverride`, and of `AGENT_IMAGE`."""

    package: str
    agent: str


_decoder = msgspec.json.Decoder(Inputs)


def inputs_of(package: Package, settings: PlanSettings) -> Inputs:
    """The hashes a Job of this package gets now. Total: what is no quantity is compared as text."""
    return _inputs(Same(package), settings.agent_image)


def dump(inputs: Inputs) -> str:
    """The text of the `…/inputs` annotation."""
    return msgspec.json.encode(inputs).decode()


def parse(text: str | None) -> Inputs | None:
    """The hashes in the annotation's text; None if there are none to read."""
    if text is None:
        return None
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def matches(job: Job, package: Package, settings: PlanSettings, *, has_pod: bool) -> bool:
    """Whether the Job would be made from the same inputs today (JOB-10).

    A changed `AGENT_IMAGE` only counts for an unfinished Job without a pod: an operator upgrade kills no running stage
    and reruns no failed one. A Job whose hashes cannot be read matches nothing.
    """
    written, wanted = parse(job.metadata.annotations.get(keys.INPUTS)), inputs_of(package, settings)
    if written is None or written.package != wanted.package:
        return False
    return written.agent == wanted.agent or has_pod or job.finished


@lru_cache(maxsize=_CACHED_PACKAGES)
def _inputs(same: Same[Package], agent_image: str) -> Inputs:
    package = same.value
    return Inputs(
        package=_digest(
            {
                "version": package.version,
                "image": package.image,
                "containerSHA": package.container_sha or "",
                "env": package.env,
                "resources": _by_value(package.resources),
                "agentImageOverride": package.agent_image_override or "",
            }
        ),
        # With an override the operator's own image is in no container, so its change is none of this Job.
        agent=_digest("" if package.agent_image_override else agent_image),
    )


def _by_value(resources: Resources | None) -> list[str] | None:
    if resources is None or not resources.is_set:
        return None  # anything but all four fields applies to no container (CON-23)
    written = (resources.cpu_request, resources.cpu_limit, resources.memory_request, resources.memory_limit)
    return [_value(quantity) for quantity in written if quantity is not None]


def _value(quantity: Quantity) -> str:
    try:
        return str(parse_quantity(quantity).as_integer_ratio())
    except QuantityError:
        return repr(quantity)


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:_DIGEST_LENGTH]
