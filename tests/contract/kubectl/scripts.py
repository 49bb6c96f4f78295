"""What a person types, in order, by what it is about. Each line is run on both clusters and must say the same.

A line is the arguments of kubectl, or, if `kubectl` is in it, a line of shell. `until:` before it: run until both say the same (what
controllers do in their own time).
"""

from typing import Final

_COME: Final = "kubectl label -f map.yaml a=b --overwrite >/dev/null"
_LEAVE: Final = "kubectl label -f map.yaml a=z --overwrite >/dev/null; sleep 0.5"
_NODES: Final = "-l contract.example.com/kubectl"
_SELECT_NODE: Final = "-o jsonpath='{.metadata.name} {.spec.taints} {.spec.unschedulable}'"
_OWN_LINES: Final = (
    "grep -v -e beta.kubernetes.io -e contract.example -e Labels -e Annotations "
    "-e RegisteredNode -e Event -e Reason -e '---'"
)
"""Without what kube-controller-manager adds to a node and we do not."""
_NO_NAMES: Final = "grep -v -e '^diff' -e '^---' -e '^+++'"

SCRIPTS: Final[dict[str, str]] = {
    "reading": f"""
get nodes {_NODES}
get nodes {_NODES} -o wide
get nodes {_NODES} -o name
get nodes {_NODES} --sort-by=.metadata.name --no-headers
get nodes {_NODES} -o jsonpath='{{.items[*].metadata.name}}'
get nodes {_NODES} -o custom-columns='N:.metadata.name,R:.status.conditions[?(@.type=="Ready")].status'
get nodes {_NODES} -o go-template='{{{{range .items}}}}{{{{.metadata.name}}}} {{{{end}}}}'
get nodes --field-selector=metadata.name=kubectl-1 -o name
get nodes --field-selector=foo=bar
get nodes {_NODES} -L contract.example.com/kubectl
get node kubectl-0 -o jsonpath='{{.status}}'
get nodes nope
get foo
get ns $NS
get pods
get pods -o json
get all
create -f map.yaml
get cm one -o yaml
get cm one -o json
get cm one nope
get cm nope --ignore-not-found
get cm/one -o name
get -f map.yaml
until: kubectl get cm one -o yaml -w & sleep 1; kill $!
until: {_COME}; kubectl get cm -l a=b -w --output-watch-events & sleep 1; {_LEAVE}; kill $!
get roles,rolebindings,secrets,pdb,limits
get crd nodewrights.nodewright.nvidia.com deploymentpolicies.nodewright.nvidia.com
""",
    "applying": f"""
apply -f map.yaml
apply -f map.yaml
apply -f map-changed.yaml --dry-run=server
apply -f map-changed.yaml --dry-run=server -o yaml
kubectl diff -f map-changed.yaml | {_NO_NAMES}
apply -f map-changed.yaml
get cm one -o yaml --show-managed-fields
apply -f map.yaml --server-side
kubectl diff -f map-changed.yaml --server-side | {_NO_NAMES}
get cm one -o yaml
apply -f map-changed.yaml --server-side --field-manager=other
apply -f map-changed.yaml --server-side --field-manager=other --force-conflicts --dry-run=server -o yaml
apply -f map-changed.yaml --server-side --field-manager=other --force-conflicts
get cm one -o yaml
kubectl get cm one -o json --show-managed-fields | grep manager
apply view-last-applied cm one
create -f map.yaml
create cm two --from-literal=a=b
create cm three --from-literal=a=b --dry-run=server -o yaml
replace -f map.yaml
kubectl get cm one -o json | sed 's/"resourceVersion": "[0-9]*"/"resourceVersion": "1"/' | kubectl replace -f -
replace -f map.yaml --force
EDITOR="sed -i s/k:.v/k:\\ edited/" kubectl edit cm one
get cm one -o jsonpath='{{.data}}'
EDITOR=true kubectl edit cm one
delete cm one two --dry-run=server
delete cm one two
delete cm one
delete cm one --ignore-not-found
""",
    "changing": """
create -f map.yaml
patch cm one -p '{"data":{"z":"1"}}'
patch cm one --type=merge -p '{"data":{"z":null,"y":"2"}}'
patch cm one --type=json -p '[{"op":"add","path":"/data/q","value":"9"}]'
patch cm one --type=json -p '[{"op":"test","path":"/data/q","value":"8"}]'
patch cm one --type=merge -p '{"data":{"z":"5"}}' --dry-run=server -o yaml
patch cm one --type=merge -p '{"metadata":{"resourceVersion":"1"}}'
patch cm one --type=merge -p '{"metadata":{"name":"other"}}'
label cm one x=y
label cm one x=z
label cm one x=z --overwrite
label cm one x-
label cm one x-
label cm one bad=-%%
annotate cm one n=1
annotate cm one n=2
annotate cm one n-
get cm one -o yaml
scale cm one --replicas=1
scale deployment nope --replicas=2
set env deployment/nope A=b
rollout status deployment/nope
wait --for=create cm/later --timeout=3s
wait --for=jsonpath='{.data.k}'=v cm/one --timeout=5s
wait --for=delete cm/one --timeout=3s
""",
    "working": """
apply -f work.yaml
wait --for=condition=Ready pod/web --timeout=30s
until: get pods
get pods -o wide
until: get jobs -o wide
until: get pod web -o yaml
until: get job job -o yaml
until: get pods,jobs
until: describe pod web
until: describe job job
until: get events -o custom-columns=REASON:.reason,MESSAGE:.message,KIND:.involvedObject.kind
until: events --for job/job
wait --for=jsonpath='{.status.active}'=1 job/job --timeout=10s
wait --for=condition=Complete job/job --timeout=3s
kubectl patch job job --type=merge -p '{"spec":{"template":{"spec":{"nodeName":"x"}}}}' -o name 2>&1 | cut -d: -f1-3
kubectl scale job job --replicas=2
patch pod web --subresource=status --type=merge -p '{"status":{"message":"said"}}' -o jsonpath='{.status.message}'
patch pod web --type=merge -p '{"metadata":{"labels":{"a":"b"}},"status":{"message":"not"}}' -o jsonpath='{.status.message}'
delete pod web --wait=false
kubectl wait --for=delete pod/web --timeout=20s >/dev/null
delete job job --cascade=orphan
until: get pods -l app=j
kubectl get pods -l job-name=job -o jsonpath='{.items[*].metadata.ownerReferences}'
delete pods --all --grace-period=0 --force
apply -f work.yaml
wait --for=jsonpath='{.status.ready}'=1 job/job --timeout=20s
delete job job --cascade=foreground
get pods -l job-name=job
apply -f work.yaml
wait --for=jsonpath='{.status.ready}'=1 job/job --timeout=20s
delete job job --cascade=background
until: get pods -l job-name=job
delete pod web --now
""",
    "nodes": f"""
describe node kubectl-0 | {_OWN_LINES}
taint node kubectl-0 k=v:NoSchedule
taint node kubectl-0 k=w:NoSchedule
taint node kubectl-0 k=w:NoSchedule --overwrite
get node kubectl-0 {_SELECT_NODE}
taint node kubectl-0 k:NoSchedule-
taint node kubectl-0 k:NoSchedule-
cordon kubectl-0
cordon kubectl-0
get nodes {_NODES}
uncordon kubectl-0
uncordon kubectl-0
cordon nope
apply -f work.yaml -f budget.yaml
wait --for=condition=Ready pod/web --timeout=30s
until: get pdb
drain kubectl-1
kubectl drain kubectl-1 --force --dry-run=server --timeout=3s 2>&1 | sort -u
kubectl drain kubectl-1 --force --timeout=7s 2>&1 | sort -u
get nodes {_NODES}
delete pdb web
drain kubectl-1 --force --timeout=30s
get pods -l app=web
uncordon kubectl-1
patch node kubectl-0 --subresource=status --type=merge -p '{{"status":{{"phase":"x"}}}}' -o jsonpath='{{.status.phase}}'
patch node kubectl-0 --subresource=status --type=json -p '[{{"op":"remove","path":"/status/phase"}}]'
""",
    "nodewrights": """
apply -f demo.yaml
apply -f demo.yaml
apply -f complete.yaml -f deployment-policy.yaml
apply -f bad.yaml
create -f bad.yaml
create -f bad.yaml --validate=warn
apply -f bad.yaml --server-side
get nw
get nodewrights -o wide
get nw,dp
get nw demo -o yaml
describe nw demo
patch nw demo --type=merge -p '{"spec":{"pause":true}}'
patch nw demo --type=merge -p '{"spec":{"pause":"yes"}}'
patch nw demo -p '{"spec":{"pause":false}}'
patch nw demo --type=json -p '[{"op":"replace","path":"/spec/interruptionBudget/count","value":-5}]'
patch nw demo --type=merge --subresource=status -p '{"status":{"status":"complete"}}'
patch nw demo --type=merge --subresource=status -p '{"status":{"status":"nonsense"}}'
get nw demo -o jsonpath='{.metadata.generation} {.status}'
wait --for=jsonpath='{.status.status}'=complete nw/demo --timeout=5s
label nw demo a=b
annotate nw demo a=b
scale nw demo --replicas=3
EDITOR="sed -i s/count:.*/count:\\ 7/" kubectl edit nw demo
get nw demo -o jsonpath='{.spec.interruptionBudget}'
replace -f demo.yaml
explain nodewright
explain nodewright.spec.packages
explain nw.spec.packages.image
explain nw.spec --recursive
explain nw.status
explain dp.spec.compartments
explain nope
api-resources --api-group=nodewright.nvidia.com -o wide
delete nw demo --wait=false
get nw demo
delete nw --all
delete dp --all
""",
    "asking": """
version
auth can-i create pods
auth can-i '*' '*'
kubectl auth can-i --list | grep -F '*.*'
kubectl auth whoami | grep Groups
auth whoami --as=bob --as-group=g
auth whoami --as=system:serviceaccount:ns:robot -o yaml
get --raw /healthz
get --raw /readyz
get --raw /livez
get --raw /nope
create sa robot
kubectl create token robot --duration=10m | cut -c1-0
create secret generic s --from-literal=a=b
create job simple --image=x/y:1
get secrets
delete sa robot
""",
}
"""By what they are about."""
