"""The three patches of the Kubernetes API: JSON patch, merge patch, strategic merge patch; the embedded API server's door to them.

Server-side apply, the fourth content type, is in `apply.py`.
"""

from controller_runtime.testing.api_server.objects.json_patches import PatchError, json_patch, merge_patch
from controller_runtime.testing.api_server.objects.strategic_patches import strategic_merge_patch

__all__ = ["PatchError", "json_patch", "merge_patch", "strategic_merge_patch"]
