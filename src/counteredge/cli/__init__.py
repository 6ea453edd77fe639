"""The command line."""
# ruff: noqa: I001 - modules add their commands in the order in which --help lists them

from counteredge.cli import explaining, catalogue, sweeping  # noqa: F401
from counteredge.cli.common import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point."""
    app()
