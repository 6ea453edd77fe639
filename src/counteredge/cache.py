"""The folder for files that can be made again: downloads and trained models."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_dir"]


def cache_dir() -> Path:
    """Where downloads and trained models are kept; the folder need not exist yet.

    Returns:
        ``$COUNTEREDGE_CACHE``, else ``$XDG_CACHE_HOME/counteredge``, else ``~/.cache/counteredge``.
    """
    own = os.environ.get("COUNTEREDGE_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "counteredge"
