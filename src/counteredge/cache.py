"""Files: the folder for what can be made again, and writing at once or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from counteredge.errors import InputError

__all__ = ["cache_dir", "write_atomic", "write_between"]


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


def write_between(path: Path, name: str, content: str) -> None:
    """Replace what stands between two marks of a Markdown file: tables that the package itself writes.

    Args:
        path: The file, with the marks ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``.
        name: Of the marks.
        content: The new lines.

    Raises:
        InputError: When the file or its marks are missing.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise InputError(f"{path} has no {begin} ... {end} to put the table between")
    write_atomic(path, f"{before}{begin}\n{content}{end}{after}".encode())
