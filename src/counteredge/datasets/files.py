"""Finds the file of a dataset: given folder, environment, beside the checkout, cache, download."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from torch_geometric import data as pyg_data

from counteredge.cache import cache_dir
from counteredge.errors import DataError

__all__ = ["TU_URL", "find_file", "local_file", "local_folders"]

TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets"
ANCHORS = "node_anchors"  # folder of the released node graphs, in the data folder or beside it in testdata/


def local_folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders to look in, in order, before anything is downloaded.

    Args:
        root: The caller's own folder, looked in first.

    Returns:
        Folders; all but the caller's own need not exist.

    Raises:
        DataError: When the caller's own folder does not exist.
    """
    folders = [Path(root).expanduser()] if root is not None else []
    if folders and not folders[0].is_dir():
        raise DataError(f"root={str(root)!r} is no folder")
    own = os.environ.get("COUNTEREDGE_DATA")
    if own:
        folders.append(Path(own).expanduser())
    source, checkout = Path(__file__).resolve().parents[2:4]
    if source.name == "src" and (checkout / "pyproject.toml").is_file():
        folders.append(checkout.parent / "shared" / "data")
    return [*folders, cache_dir() / "datasets"]


def local_file(name: str, root: str | os.PathLike[str] | None = None) -> Path | None:
    """A dataset's file in one of the local folders; nothing is downloaded.

    A ``NAME.no-edges.zip`` stands in for a missing ``NAME.zip``, so that the error can say what it lacks; an ``.npz``
    may also lie in ``node_anchors``, in the data folder or in ``testdata`` beside it.

    Args:
        name: Name of the file.
        root: The caller's own folder, looked in first.

    Returns:
        Its path, or ``None``.
    """
    names = [name, name.replace(".zip", ".no-edges.zip")]
    for wanted in dict.fromkeys(names):
        for folder in local_folders(root):
            places = [folder]
            if wanted.endswith(".npz"):
                places += [folder / ANCHORS, folder.parent / "testdata" / ANCHORS]
            for place in places:
                if (place / wanted).is_file():
                    return place / wanted
    return None


def find_file(name: str, root: str | os.PathLike[str] | None = None, *, url: str | None = None) -> Path:
    """The file of a dataset, downloaded into the cache folder when no local folder has it.

    Args:
        name: Name of the file, for example ``MUTAG.zip``.
        root: Folder that holds it.
        url: Where it can be had; ``None`` when it must be local.

    Returns:
        Its path.

    Raises:
        DataError: When it is nowhere and cannot be downloaded.
    """
    found = local_file(name, root)
    if found is not None:
        return found
    folders = local_folders(root)
    looked = f"{name} is in none of: {', '.join(str(f) for f in folders)}"
    advice = f"Put {name} into a folder and pass root=FOLDER (--data-root FOLDER), or set COUNTEREDGE_DATA=FOLDER"
    if url is None:
        raise DataError(f"{looked}; it is not downloaded by itself. {advice}")
    try:
        return _download(url, folders[-1])
    except OSError as error:
        raise DataError(f"{looked}; and {url} could not be downloaded ({error}). {advice}") from error


def _download(url: str, folder: Path) -> Path:
    """Download beside the target first, so that a broken download never looks whole."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as partial:
        path = Path(pyg_data.download_url(url, partial, log=False))
        return path.replace(folder / path.name)
