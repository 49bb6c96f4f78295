"""What the engine reads and what it answers: lean immutable views of cluster objects, the snapshot, and the plan.

Nothing here knows the runtime, a client or a loop. `objects` are decoded straight from the API server's bytes; `node_state` and `pick`
are the two records that NodeWright keeps on nodes; `snapshot` is the input and `plan` the output of `nodewright.engine`.
"""
