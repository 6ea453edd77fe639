"""Finds the zip of a dataset: given folder, environment, beside the checkout, cache, download."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from torch_geometric import data as pyg_data

from counteredge.cache import cache_dir
from counteredge.errors import DataError

__all__ = ["find_zip", "local_folders"]

TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets"


def local_folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders to look in, in order, before anything is downloaded.

    Args:
        root: The caller's own folder, looked in first.

    Returns:
        Folders; they need not exist.
    """
    folders = [Path(root).expanduser()] if root is not None else []
    own = os.environ.get("COUNTEREDGE_DATA")
    if own:
        folders.append(Path(own).expanduser())
    source, checkout = Path(__file__).resolve().parents[2:4]
    if source.name == "src" and (checkout / "pyproject.toml").is_file():
        folders.append(checkout.parent / "shared" / "data")
    return [*folders, cache_dir() / "datasets"]


def find_zip(name: str, root: str | os.PathLike[str] | None = None) -> Path:
    """The zip of a TU dataset, downloaded into the cache folder when no local folder has it.

    Args:
        name: Name in the TU collection.
        root: Folder that holds ``NAME.zip``.

    Returns:
        Path of the zip.

    Raises:
        DataError: When it is nowhere and cannot be downloaded.
    """
    folders = local_folders(root)
    for folder in folders:
        if (folder / f"{name}.zip").is_file():
            return folder / f"{name}.zip"
    url = f"{TU_URL}/{name}.zip"
    try:
        return _download(url, folders[-1])
    except OSError as error:
        looked = ", ".join(str(f) for f in folders)
        raise DataError(
            f"{name}.zip is in none of: {looked}; and {url} could not be downloaded ({error}). "
            f"Put {name}.zip into a folder and pass root=FOLDER or set COUNTEREDGE_DATA=FOLDER"
        ) from error


def _download(url: str, folder: Path) -> Path:
    """Download beside the target first, so that a broken download never looks whole."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as partial:
        path = Path(pyg_data.download_url(url, partial, log=False))
        return path.replace(folder / path.name)
