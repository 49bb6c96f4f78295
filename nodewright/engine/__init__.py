"""The decisions: pure functions from a snapshot of the cluster to a plan.

Read in the order of the data: `evidence` (Jobs and pods → what happened), `changes` (spec against node state → what has to be redone),
`graph` and `stages` (the next stage of each package), `facts` (all of it for one node), `ordering` (whose turn),
`rollout` (batches and picks),
`node_plan` (the writes of one node), `status` and `conditions` (what is published), `deletion` (the way out), `plan`
(one pass, all in one function).
Nothing here awaits, logs, reads a clock or the environment, and nothing mutates what it was given.
"""
