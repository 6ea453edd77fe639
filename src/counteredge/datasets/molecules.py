"""Molecules of MoleculeNet, out of their SMILES through RDKit.

Wu et al., MoleculeNet: a benchmark for molecular machine learning, Chemical Science 9, 2018.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from counteredge.datasets.dataset import Content
from counteredge.datasets.tu import onehot
from counteredge.datasets.tu_sets import attribute_columns
from counteredge.errors import CapabilityError, DataError
from counteredge.schema import Column

__all__ = ["read_bbbp"]

BBBP_SHA256 = "6aecd84110e8c0549bc4e2e486c52267d4e775178fca8999f5465029e31e75bb"
_BONDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")


def read_bbbp(path: str | os.PathLike[str], *, sha256: str | None = BBBP_SHA256) -> Content:
    """Read the table of the blood-brain barrier molecules; rows whose SMILES RDKit does not take are left out.

    Args:
        path: ``BBBP.csv`` with the columns ``num,name,p_np,smiles``.
        sha256: Digest that the file must have; ``None`` takes any file.

    Returns:
        One graph a molecule, hydrogens implicit: ``x`` is the one-hot element, then aromatic, formal charge and
        number of hydrogens; ``edge_attr`` the one-hot bond (single, double, triple, aromatic); ``smiles`` as read.

    Shapes:
        x ``(n, elements + 3)``, edge_index ``(2, E)``, edge_attr ``(E, 4)``, y ``(1,)``.

    Raises:
        CapabilityError: When RDKit is not installed.
        DataError: When the file is not the known one, or not such a table.
    """
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise CapabilityError("BBBP is read from SMILES, which needs RDKit: pip install 'counteredge[mol]'") from error
    rows = _rows(path, sha256)
    with rdBase.BlockLogs():  # it would print each SMILES that it does not take
        molecules = [(Chem.MolFromSmiles(smiles), smiles, label) for smiles, label in rows]
    molecules = [m for m in molecules if m[0] is not None and m[0].GetNumAtoms()]
    if not molecules:
        raise DataError(f"{path} has no SMILES that RDKit can read")
    atoms = [
        (a.GetAtomicNum(), a.GetIsAromatic(), a.GetFormalCharge(), a.GetTotalNumHs())
        for molecule, _, _ in molecules
        for a in molecule.GetAtoms()
    ]
    table = np.array(atoms, dtype=np.int64)
    elements, codes = np.unique(table[:, 0], return_inverse=True)
    attributes = torch.from_numpy(table[:, 1:]).float()
    x = torch.cat([torch.from_numpy(onehot(codes, len(elements))).float(), attributes], 1)
    periodic = Chem.GetPeriodicTable()
    columns = [Column("onehot", group=0, name=periodic.GetElementSymbol(int(z))) for z in elements]
    columns += attribute_columns(attributes, ["aromatic", "charge", "hydrogens"])
    pieces = torch.split(x, [m.GetNumAtoms() for m, _, _ in molecules])
    graphs = [_graph(m, s, y, rows.clone()) for (m, s, y), rows in zip(molecules, pieces, strict=True)]
    return Content(graphs, tuple(columns), ("does not penetrate", "penetrates"))


def _rows(path: str | os.PathLike[str], sha256: str | None) -> list[tuple[str, int]]:
    """SMILES and class of each row."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    if sha256 is not None and (got := hashlib.sha256(raw).hexdigest()) != sha256:
        raise DataError(f"{path} is not the known BBBP.csv: its SHA-256 is {got}, expected {sha256}")
    try:
        rows = [(r["smiles"], int(r["p_np"])) for r in csv.DictReader(io.StringIO(raw.decode("utf-8"), newline=""))]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise DataError(f"{path} is no table with the columns p_np (0 or 1) and smiles: {error!r}") from error
    if any(label not in (0, 1) or not smiles for smiles, label in rows):
        raise DataError(f"{path}: each row needs a SMILES and a p_np of 0 or 1")
    return rows


def _graph(molecule: Any, smiles: str, label: int, x: torch.Tensor) -> Data:
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), b.GetBondType().name) for b in molecule.GetBonds()]
    unknown = {kind for _, _, kind in bonds}.difference(_BONDS)
    if unknown:
        raise DataError(f"{smiles} has bonds of kind {', '.join(sorted(unknown))}; known: {', '.join(_BONDS)}")
    ends = np.array([(i, j, _BONDS.index(kind)) for i, j, kind in bonds], dtype=np.int64).reshape(-1, 3)
    both = np.concatenate([ends, ends[:, [1, 0, 2]]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    return Data(
        x=x,
        edge_index=torch.from_numpy(np.ascontiguousarray(both[:, :2].T)),
        edge_attr=torch.from_numpy(onehot(both[:, 2], len(_BONDS))).float(),
        y=torch.tensor([label]),
        smiles=smiles,
    )
