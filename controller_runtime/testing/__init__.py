"""What tests of a controller run against: a real control plane, see ``control_plane``."""
