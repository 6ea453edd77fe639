"""Files that appear at once or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_atomic"]


def write_atomic(path: Path, content: bytes) -> None:
    """Write beside the target and rename, so that no half-written file is ever seen.

    Args:
        path: File to write; its folder must exist.
        content: All of it.

    Raises:
        OSError: When the folder cannot be written to.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
