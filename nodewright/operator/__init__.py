"""The operator's shell: settings, the picture of the cluster, one pass, and the writes that carry out its plan.

Read in this order: `app` (wiring), `informers` and `snapshots` (what a pass sees), `reconciler` (one pass), `executor` with
`node_sequence` and the `*_writes` (what comes of it), `status_writer` (the CR status at its own pace), `triggers` (what asks for a pass).
"""
