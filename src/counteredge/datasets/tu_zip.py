"""Numbers out of the zips of the TU collection: hash first, in memory, nothing is unpacked to disk."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Collection
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from counteredge.errors import DataError

__all__ = ["KNOWN_SHA256", "content_sha256", "read_numbers"]

MAX_MEMBER = 1 << 30  # bytes of one member, unpacked
MAX_RATIO = 200  # unpacked / packed; smaller members are let through: a column of constants packs better
RATIO_FROM = 1 << 24
CHUNK = 1 << 24  # bytes of text that are parsed at a time

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
Numbers = NDArray[Any]
_Members = dict[str, zipfile.ZipInfo]


def read_numbers(path: str | os.PathLike[str], name: str, *, skip: Collection[str] = ()) -> dict[str, Numbers]:
    """The data members of a TU zip as matrices, checked against the known hash before anything is parsed.

    Args:
        path: The zip, with members ``NAME/NAME_A.txt`` and so on (any folder).
        name: Name of the dataset.
        skip: Parts that are not parsed, for example ``"node_labels"``.

    Returns:
        By part (``"A"``, ``"graph_labels"``, ...): int64 or int32, ``*_attributes`` float64.

    Shapes:
        Each ``(lines, numbers a line)``.

    Raises:
        DataError: When the zip is missing, damaged, unsafe, not the known one, or holds no numbers.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, name)
            expected = KNOWN_SHA256.get(name)
            if expected is not None and (got := _digest(archive, members)) != expected:
                raise DataError(f"{path} is not the known {name}: SHA-256 of its data is {got}, expected {expected}")
            found = {}
            for part, info in members.items():
                if part not in skip:
                    with archive.open(info) as stream:
                        found[part] = _parse(stream, np.float64 if part.endswith("attributes") else np.int64)
            return found
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise DataError(f"{path} cannot be read as the TU zip of {name}: {error}") from error


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


def _members(archive: zipfile.ZipFile, name: str) -> _Members:
    """The data members by part (``"A"``, ``"graph_labels"``, ...); the whole zip is refused when a member is unsafe."""
    files = {f"{name}_{part}.txt": part for part in _PARTS}
    found: _Members = {}
    for info in archive.infolist():
        _check_member(archive, info)
        part = files.get(info.filename.rsplit("/", 1)[-1])
        if part is None:
            continue
        if part in found:
            raise DataError(f"{archive.filename}: {info.filename} is there twice")
        found[part] = info
    missing = [f"{name}_{p}.txt" for p in ("A", "graph_indicator") if p not in found]
    if not {"graph_labels", "graph_attributes"} & found.keys():
        missing.append(f"{name}_graph_labels.txt")
    if missing:
        raise DataError(f"{archive.filename} has no {', '.join(missing)}; the whole zip of {name} is needed")
    return dict(sorted(found.items()))


def _check_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """No link, no path out of the zip, no bomb."""
    windows = PureWindowsPath(info.filename)
    if ".." in windows.parts or windows.anchor or PurePosixPath(info.filename).is_absolute():
        raise DataError(f"{archive.filename}: member {info.filename!r} points outside the zip; refused")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise DataError(f"{archive.filename}: member {info.filename!r} is a link; refused")
    ratio = info.file_size / max(info.compress_size, 1)
    if info.file_size > MAX_MEMBER or (info.file_size > RATIO_FROM and ratio > MAX_RATIO):
        raise DataError(
            f"{archive.filename}: {info.filename} unpacks to {info.file_size} bytes, {ratio:.0f} times "
            f"its packed size; refused above {MAX_MEMBER} bytes or {MAX_RATIO} times"
        )


def _digest(archive: zipfile.ZipFile, members: _Members) -> str:
    digest = hashlib.sha256()
    for part, info in members.items():
        digest.update(f"{part}:{info.file_size}\n".encode())
        with archive.open(info) as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _parse(stream: IO[bytes], dtype: type[np.generic]) -> Numbers:
    """All lines of a member; whole lines are parsed a chunk at a time, so that the text is never there at once."""
    blocks: list[Numbers] = []
    rest = b""
    while chunk := stream.read(CHUNK):
        lines, newline, rest = (rest + chunk).rpartition(b"\n")
        if lines.strip():
            blocks.append(_block(lines + newline, dtype))
    if rest.strip():
        blocks.append(_block(rest + b"\n", dtype))
    widths = sorted({b.shape[1] for b in blocks})
    if len(widths) != 1:
        raise ValueError(f"{getattr(stream, 'name', 'a member')} has lines of {widths or 'no'} numbers")
    return np.concatenate(blocks)


def _block(text: bytes, dtype: type[np.generic]) -> Numbers:
    """Whole lines as a matrix; plain non-negative integers take a fast way, anything else NumPy's strict reader."""
    plain = text.replace(b"\r\n", b"\n").replace(b", ", b",")
    if not plain.translate(None, b"0123456789,\n"):
        marks = np.frombuffer(plain, np.uint8)
        marks = marks[marks < ord("0")]  # commas and line ends
        columns = plain[: plain.index(b"\n")].count(b",") + 1
        numbers: Numbers = np.fromstring(plain.replace(b",", b" ").decode("ascii"), dtype=np.int64, sep=" ")
        largest = int(numbers.max(initial=0))  # the largest int64 stands for all numbers that are too large
        # as many numbers as marks: no field is empty; line ends at every columns-th mark: no line is longer or shorter
        if len(numbers) == len(marks) and len(marks) % columns == 0 and largest < 2**63 - 1:
            grid = marks.reshape(-1, columns)
            if (grid[:, -1] == ord("\n")).all() and (grid[:, :-1] == ord(",")).all():
                kind = np.int32 if largest < 2**31 and dtype is np.int64 else dtype
                return numbers.astype(kind).reshape(-1, columns)
    return np.loadtxt(io.StringIO(text.decode("ascii")), dtype=dtype, delimiter=",", comments=None, ndmin=2)
