"""A controller runtime for Kubernetes: a live, read-only picture of part of a cluster, and one function call per key.

It knows the API machinery (client, watch, cache, queue, controller, leader election, events) and nothing of what is
built on it. The packages are layers, bottom up: clock, transport, watch, cache, queue, controller, manager.
`docs/design/runtime.md` fixes the public surface.
"""
