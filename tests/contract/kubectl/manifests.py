"""What the scripts apply."""

from typing import Final

MANIFESTS: Final = {
    "map.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {a: b}}
data: {k: v}
""",
    "map-changed.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: one, labels: {a: c}, annotations: {note: "<x> & y"}}
data: {k: w, m: o}
""",
    "work.yaml": """
apiVersion: batch/v1
kind: Job
metadata: {name: job, labels: {app: j}}
spec:
  backoffLimit: 3
  template:
    spec:
      nodeName: kubectl-0
      automountServiceAccountToken: false
      restartPolicy: Never
      containers: [{name: work, image: "registry.example/x:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: kubectl-1
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers: [{name: work, image: "registry.example/x:1"}]
""",
    "budget.yaml": """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: web}}
""",
    "bad.yaml": """
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {name: bad}
spec:
  foo: 1
  packages:
    a: {version: x, image: some}
""",
}
"""By file name."""
