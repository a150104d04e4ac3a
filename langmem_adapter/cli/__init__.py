"""The command `langmem-adapter`: one module per group of commands; `app` puts them together."""

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script; a Ctrl-C while everything is being imported ends it, too."""
    try:
        from langmem_adapter.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
