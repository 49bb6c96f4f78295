"""A cluster without machines: simulated kubelets, behaviour rules, a ledger of what ran, workloads to drain."""
