"""Reads the text format of the TU collection straight out of its zip, in memory.

Morris et al., TUDataset: A collection of benchmark datasets for learning with graphs, 2020.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from counteredge.errors import DataError

__all__ = ["content_sha256", "read_tu"]

MAX_MEMBER = 1 << 30  # bytes of one member, unpacked
MAX_RATIO = 200  # unpacked / packed; small members are let through: a few constant lines pack better
RATIO_FROM = 1 << 20
MAX_DENSE = 4 << 30  # bytes of a one-hot matrix

# SHA-256 of the data members, see content_sha256; zips of the same data differ from mirror to mirror
KNOWN_SHA256: dict[str, str] = {
    "AIDS": "7883ffddb2faa95b6842afa74ff0fb88702d79a8e45e1e09882d43b4900c65a1",
    "BZR": "037bf5e198cc5d5341f3db27102b5137403f5b0601229643fc02e5dcdc01dd51",
    "COLLAB": "e9ffa72b1af09f9d70851a1f92d5c7d26f6baf6e78a184029ed92d6b46506392",
    "COLORS-3": "66ae78874e50aec3deb44a919cada3c53e5cd5a7767892ab4b2de97d18e849b7",
    "COX2": "28041b016e26ad81ba36fa0ff559db4cc54e33944aa46abcd2ac5a00ee808903",
    "DBLP_v1": "b26627e93cd73e4cb6cf0da32b19c2e0f048d2127307b85dd9d11f8d86fa21bd",
    "ENZYMES": "dacce9a54e11f09a05f0e205fde62633799dacb8541fcf1beab19e4455975c65",
    "Fingerprint": "2a413027a8e0509c1d76a2720dadfe5ff17f55d3eeff8c120a704357efb2ff6e",
    "IMDB-BINARY": "cd9fafc8711f1801bf88b9250bbd4a6caa2f75cddf7b06e26e5de1df7e88b0b2",
    "MSRC_21": "bd60b5f458ec8d320f728ec13b78a4503157b677d716b71b0e2746031da21be9",
    "MSRC_9": "a1b52a17d64b5f6b046b6ddbefcc76c32979461f7fd628f83bf97ecdd00c0c37",
    "MUTAG": "fb99bf5f31a6e4615ae5c65930c7b4bb136a58cda18bc563a5a795162e60609a",
    "PROTEINS": "78bdf112042a8dd96bfff64ee7351a4f706c0bad9dd33a04d1cac77036baad5c",
    "PROTEINS_full": "e3ae4dc0f95d7219147b47ce3a8559e0460865e07e1a60091211b1ec85ac9444",
    "TRIANGLES": "b1812ee8ac750649fb628ba7044e411dd979d656817a84c7ac5cc14967310d23",
}

_PARTS = (
    "A",
    "edge_attributes",
    "edge_labels",
    "graph_attributes",
    "graph_indicator",
    "graph_labels",
    "node_attributes",
    "node_labels",
)
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def read_tu(path: str | os.PathLike[str], name: str, *, node_labels: bool = True) -> list[Data]:
    """Read all graphs of a TU zip.

    Args:
        path: The zip, with members ``NAME/NAME_A.txt`` and so on (any folder).
        name: Name of the dataset. When its hash is known the data are checked against it first.
        node_labels: Leave the one-hot node labels out with ``False`` (DBLP_v1 has 41325 of them).

    Returns:
        Graphs in file order, also those without nodes. ``x`` is the node attributes, then the one-hot node
        labels (absent when the zip has neither); ``edge_index`` is sorted, without self-loops and repeats (of
        equal edges the first stays); ``edge_attr`` likewise, when present; ``y`` are classes from 0 in the
        order of the file's labels, or of ``graph_attributes`` when there are no labels.

    Shapes:
        x ``(n, f)`` float32, edge_index ``(2, E)`` long, edge_attr ``(E, d)`` float32, y ``(1,)`` long.

    Raises:
        DataError: When the zip is missing, damaged, unsafe, not the known one, or inconsistent.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, name)
            _check_hash(archive, members, path, name)
            skip = set() if node_labels else {"node_labels"}
            text = {p: _parse(archive, m, p) for p, m in members.items() if p not in skip}
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise DataError(f"{path} cannot be read as the TU zip of {name}: {error}") from error
    return _build(text, name)


def content_sha256(path: str | os.PathLike[str], name: str) -> str:
    """SHA-256 of the data in a TU zip, whatever the packing: names and bytes of the data members, in order.

    Args:
        path: The zip.
        name: Name of the dataset.

    Returns:
        64 hexadecimal digits.

    Raises:
        DataError: When a member is missing or unsafe.
    """
    with zipfile.ZipFile(path) as archive:
        return _digest(archive, _members(archive, name))


def _members(archive: zipfile.ZipFile, name: str) -> dict[str, zipfile.ZipInfo]:
    """The data members by part (``"A"``, ``"graph_labels"``, ...), none of them a bomb."""
    files = {f"{name}_{part}.txt": part for part in _PARTS}
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        part = files.get(info.filename.rsplit("/", 1)[-1])
        if part is None:
            continue
        if part in found:
            raise DataError(f"{archive.filename}: {info.filename} is there twice")
        ratio = info.file_size / max(info.compress_size, 1)
        if info.file_size > MAX_MEMBER or (info.file_size > RATIO_FROM and ratio > MAX_RATIO):
            raise DataError(
                f"{archive.filename}: {info.filename} unpacks to {info.file_size} bytes, {ratio:.0f} times "
                f"its packed size; refused above {MAX_MEMBER} bytes or {MAX_RATIO} times"
            )
        found[part] = info
    missing = [f"{name}_{p}.txt" for p in ("A", "graph_indicator") if p not in found]
    if not {"graph_labels", "graph_attributes"} & found.keys():
        missing.append(f"{name}_graph_labels.txt")
    if missing:
        raise DataError(f"{archive.filename} has no {', '.join(missing)}")
    return dict(sorted(found.items()))


def _digest(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> str:
    digest = hashlib.sha256()
    for part, info in members.items():
        digest.update(f"{part}:{info.file_size}\n".encode())
        with archive.open(info) as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _check_hash(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], path: str | os.PathLike[str], name: str
) -> None:
    expected = KNOWN_SHA256.get(name)
    if expected is None:
        return
    got = _digest(archive, members)
    if got != expected:
        raise DataError(f"{path} is not the known {name}: SHA-256 of its data is {got}, expected {expected}")


def _parse(archive: zipfile.ZipFile, info: zipfile.ZipInfo, part: str) -> NDArray[Any]:
    """Numbers of one member as a matrix."""
    dtype = np.float64 if part.endswith("attributes") else np.int64
    with archive.open(info) as stream, io.TextIOWrapper(stream, encoding="ascii") as lines:
        return np.loadtxt(lines, dtype=dtype, delimiter=",", comments=None, ndmin=2)


def _build(text: dict[str, NDArray[Any]], name: str) -> list[Data]:
    owner: Ints = text["graph_indicator"][:, 0] - 1
    labels = text["graph_labels"] if "graph_labels" in text else text["graph_attributes"]
    y = np.unique(labels[:, 0], return_inverse=True)[1].astype(np.int64)
    edges: Ints = text["A"] - 1
    _check_shapes(text, name, owner, edges, len(y))

    x = _columns(text, "node", name)
    edge_attr = _columns(text, "edge", name)
    kept = np.flatnonzero(edges[:, 0] != edges[:, 1])
    # np.unique gives the first place of each key, in the order of the keys: by row, then column
    kept = kept[np.unique(edges[kept, 0] * len(owner) + edges[kept, 1], return_index=True)[1]]
    edges = edges[kept]
    node_at = np.searchsorted(owner, np.arange(len(y) + 1))
    edge_at = np.searchsorted(owner[edges[:, 0]], np.arange(len(y) + 1))

    graphs = []
    for i in range(len(y)):
        first, last, low, high = node_at[i], node_at[i + 1], edge_at[i], edge_at[i + 1]
        graph = Data(
            edge_index=torch.from_numpy(np.ascontiguousarray((edges[low:high] - first).T)),
            y=torch.from_numpy(y[i : i + 1].copy()),
        )
        if x is not None:
            graph.x = torch.from_numpy(x[first:last].copy())
        else:
            graph.num_nodes = int(last - first)
        if edge_attr is not None:
            graph.edge_attr = torch.from_numpy(edge_attr[kept[low:high]])
        graphs.append(graph)
    return graphs


def _check_shapes(text: dict[str, NDArray[Any]], name: str, owner: Ints, edges: Ints, graphs: int) -> None:
    rows = {"node": len(owner), "edge": len(edges)}
    for part, numbers in text.items():
        expected = rows.get(part.split("_")[0], len(numbers))
        if len(numbers) != expected:
            raise DataError(f"{name}_{part}.txt has {len(numbers)} lines, expected {expected}")
    if edges.shape[1] != 2 or not len(owner):
        raise DataError(f"{name}: need two node numbers a line in _A.txt and at least one node")
    if (np.diff(owner) < 0).any() or owner[0] < 0 or owner[-1] >= graphs:
        raise DataError(f"{name}_graph_indicator.txt: graph numbers must rise from 1 to at most {graphs}")
    if len(edges) and (edges.min() < 0 or edges.max() >= len(owner)):
        raise DataError(f"{name}_A.txt: node numbers must be 1 to {len(owner)}")
    if (owner[edges[:, 0]] != owner[edges[:, 1]]).any():
        raise DataError(f"{name}_A.txt: an edge joins two graphs")


def _columns(text: dict[str, NDArray[Any]], what: str, name: str) -> Floats | None:
    """Attributes, then one-hot labels, of ``"node"`` or ``"edge"``; None when the files have neither."""
    blocks: list[Floats] = []
    if f"{what}_attributes" in text:
        blocks.append(text[f"{what}_attributes"].astype(np.float32))
    labels: Ints = text.get(f"{what}_labels", np.empty((0, 0), np.int64))
    for column in labels.T:
        codes = column - column.min()
        width = int(codes.max()) + 1
        if 4 * width * len(codes) > MAX_DENSE:
            raise DataError(
                f"{name}: one-hot {what} labels would take {4 * width * len(codes) / 2**30:.0f} GiB "
                f"({len(codes)} rows, {width} labels); read it with node_labels=False"
            )
        block = np.zeros((len(codes), width), np.float32)
        block[np.arange(len(codes)), codes] = 1
        blocks.append(block)
    return np.concatenate(blocks, axis=1) if blocks else None
