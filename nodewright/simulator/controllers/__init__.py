"""The controllers of kube-controller-manager that NodeWright depends on, as clients of any API server."""

from nodewright.simulator.controllers.controllers import Controllers
from nodewright.simulator.controllers.settings import ControllerSettings

__all__ = ["ControllerSettings", "Controllers"]
