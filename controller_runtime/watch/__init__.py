"""List and watch: a pure state machine (`machine`), and the `Reflector` that drives it against a server."""

from controller_runtime.watch import machine
from controller_runtime.watch.lines import LineSplitter
from controller_runtime.watch.reflector import Reflector, Sink, WatchClient

__all__ = ["LineSplitter", "Reflector", "Sink", "WatchClient", "machine"]
