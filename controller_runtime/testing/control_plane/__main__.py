"""``python -m controller_runtime.testing.control_plane``: builds the programs if need be.

Prints the folder they are in. Exit code 0, or 1 with one message on standard error: no Go, or a build that failed.
"""

import sys

from controller_runtime.testing.control_plane.build import BuildError, build_programs


def main() -> int:
    """Builds; returns the exit code."""
    try:
        programs = build_programs()
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{programs.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
