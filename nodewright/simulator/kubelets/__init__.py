"""Simulated kubelets: nodes whose pods behave as real kubelets report them, as the rules say."""

from nodewright.simulator.kubelets.kubelets import Kubelets
from nodewright.simulator.kubelets.node_body import NodeTemplate
from nodewright.simulator.kubelets.timing import Timing

__all__ = ["Kubelets", "NodeTemplate", "Timing"]
