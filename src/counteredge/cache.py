"""Files: the folder for what can be made again, and writing at once or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["cache_dir", "write_atomic"]


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


def write_atomic(path: Path, content: bytes) -> None:
    """Write beside the target and rename, so that no half-written file is ever seen.

    Args:
        path: File to write; its folder must exist. It gets the permissions that any new file gets.
        content: All of it.

    Raises:
        OSError: When the folder cannot be written to.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_atomic(Path(folder) / "a", b"all of it")
        ...     [p.name for p in Path(folder).iterdir()]
        ['a']
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
