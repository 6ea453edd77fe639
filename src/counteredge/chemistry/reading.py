"""What columns mean to a chemist: from a graph and its schema to atoms and bonds, and on to an RDKit molecule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.chemistry.judge import BONDS, Atom, caps, judge, rdkit
from counteredge.data import NewEdges, new_edge_values
from counteredge.errors import InputError
from counteredge.schema import FeatureSchema

if TYPE_CHECKING:
    from rdkit import Chem

__all__ = [
    "Columns",
    "atoms_of",
    "check_bonds",
    "elements_by_number",
    "molecule",
    "new_bonds",
    "places",
    "read",
    "valid_molecule",
]


@dataclass(frozen=True)
class Columns:
    """Which column of ``x`` and of ``edge_attr`` holds what."""

    atoms: tuple[int, ...]
    symbols: tuple[str, ...]
    charge: int | None
    hydrogens: int | None
    following: tuple[int, ...]  # columns of x that say again what the bonds say: no edit of them changes a molecule
    bonds: tuple[int, ...]  # of edge_attr, in the order of BONDS; -1 where there is none
    edge_names: tuple[str, ...]

    @classmethod
    def of(cls, schema: FeatureSchema) -> Columns:
        """Find them by their names.

        Raises:
            InputError: No columns, or several groups of them, are named by element.
        """
        known = caps()
        groups: dict[int, list[int]] = {}
        for k, c in enumerate(schema.columns):
            if c.name in known:
                groups.setdefault(c.group, []).append(k)
        # columns that are edited as plain numbers (the paper preset) keep their names, but are in no group
        numbers = groups.pop(-1, [])
        found = list(groups.values()) or ([numbers] if len(numbers) > 1 else [])
        if len(found) != 1:
            named = ", ".join(schema.names[:8]) + (", ..." if schema.width > 8 else "")
            what = "no one-hot group" if not found else f"{len(found)} one-hot groups"
            raise InputError(
                f"chemistry: {what} of x with columns named by element (the columns are: {named}); name the atom types "
                "in the schema, for example FeatureSchema.onehot(['C', 'N', 'O']), or call "
                "counteredge.chemistry.elements_by_number(schema) where labels like 'label=6' are atomic numbers"
            )
        names = {c.name: k for k, c in enumerate(schema.columns) if c.kind != "onehot"}
        at = {name.lower(): k for k, name in enumerate(schema.edge_names)}
        return cls(
            tuple(found[0]),
            tuple(schema.columns[k].name for k in found[0]),
            names.get("charge"),
            names.get("hydrogens"),
            tuple(names[name] for name in ("aromatic", "hydrogens") if name in names),
            tuple(at.get(bond, -1) for bond in BONDS),
            schema.edge_names,
        )

    @property
    def bonded(self) -> bool:
        """Whether bond types are known."""
        return any(k >= 0 for k in self.bonds)


def molecule(data: Data, schema: FeatureSchema) -> Chem.RWMol:
    """The RDKit molecule that a graph describes; sanitised where that is possible.

    Atoms come from the one-hot group of ``x`` whose columns are named by element, charges from a column ``charge``.
    Bonds come from the one-hot columns of ``edge_attr`` that ``schema.edge_names`` calls ``single``, ``double``,
    ``triple`` and ``aromatic``. Without bond types every bond is single: the skeleton, which is a molecule exactly when
    no atom has more neighbours than its largest valence. Hydrogens fill up what is left; a column ``hydrogens`` only
    tells which aromatic nitrogen carries one. What graphs without charges or hydrogens cannot say is put right first:
    a nitrogen of bond order 4 beside a terminal oxygen becomes N+ and O-, and where an aromatic system has no Kekulé
    structure, its nitrogens are given hydrogens.

    Args:
        data: The graph.
        schema: The meaning of its columns.

    Returns:
        The molecule, atom ``i`` being node ``i``.

    Shapes:
        x ``(n, f)``; edge_attr ``(E, len(schema.edge_names))``.

    Raises:
        CapabilityError: RDKit is not installed.
        InputError: No columns named by element, or bond types that are not one-hot or have no names.

    Example:
        >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> ethanol = molecule(Data(x=x, edge_index=edges), FeatureSchema.onehot(["C", "O"]))
        >>> ethanol.GetNumAtoms(), ethanol.GetAtomWithIdx(0).GetTotalNumHs()
        (3, 3)
    """
    return judge(*read(data, schema))[0]


def valid_molecule(data: Data, schema: FeatureSchema) -> bool:
    """Whether the graph describes a molecule that RDKit sanitises and reads back from its own SMILES.

    Args:
        data: The graph.
        schema: The meaning of its columns, see :func:`molecule`.

    Raises:
        CapabilityError: RDKit is not installed.
        InputError: As for :func:`molecule`.
    """
    return not judge(*read(data, schema))[1]


def elements_by_number(schema: FeatureSchema) -> FeatureSchema:
    """The schema with one-hot columns ``label=Z`` named by the element of atomic number ``Z`` (BZR, COX2).

    Example:
        >>> elements_by_number(FeatureSchema.onehot(["label=6", "label=17"])).names
        ('C', 'Cl')
    """
    table = rdkit().GetPeriodicTable()
    columns = []
    for c in schema.columns:
        label = c.name.removeprefix("label=")
        number = int(label) if c.kind == "onehot" and label != c.name and label.isdecimal() else 0
        columns.append(replace(c, name=table.GetElementSymbol(number)) if 1 <= number <= 118 else c)
    return replace(schema, columns=tuple(columns))


def new_bonds(schema: FeatureSchema, policy: NewEdges) -> NewEdges:
    """What a new edge gets under ``chemistry="valence"``: a single bond, unless the policy is the user's own function.

    Raises:
        InputError: A policy that gives no bond type.
    """
    if callable(policy) or not any(name.lower() in BONDS for name in schema.edge_names):
        return policy
    names = [name.lower() for name in schema.edge_names]
    if policy != "mode" or "single" not in names:
        raise InputError(
            f"chemistry: new_edges={policy!r} gives a new edge no bond type among {', '.join(schema.edge_names)}; "
            "leave it at 'mode' for single bonds (edge_names needs 'single' then), or give a function that returns "
            "one-hot rows"
        )

    def single(data: Data, key: str) -> Any:
        if key != "edge_attr":
            return new_edge_values(key, data[key], 1)[0]
        row = data[key].new_zeros(data[key].shape[1:])
        row[..., names.index("single")] = 1
        return row

    return single


def read(data: Data, schema: FeatureSchema) -> tuple[list[Atom], list[tuple[int, int, int]], bool]:
    """Atoms, bonds ``(i, j, place in BONDS)`` with ``i < j``, and whether charges are given."""
    columns = Columns.of(schema)
    check_bonds(data, columns, "the graph")
    n = int(data.x.shape[0])
    src, dst = data.edge_index
    if data.get("edge_attr") is None or not columns.bonded:
        kind = torch.zeros(len(src), dtype=torch.long)
    else:
        kind = places(data.edge_attr, columns)
    bonds: dict[tuple[int, int], int] = {}
    for i, j, k in zip(src.tolist(), dst.tolist(), kind.tolist(), strict=True):
        if i < j or (i != j and (j, i) not in bonds):
            bonds[min(i, j), max(i, j)] = k
    return (
        atoms_of(data.x.reshape(n, -1), columns),
        # RDKit can depend on the order of bonds; an edited graph must be judged as its parts were in the search
        [(i, j, k) for (i, j), k in sorted(bonds.items())],
        columns.charge is not None,
    )


def check_bonds(data: Data, columns: Columns, where: str) -> None:
    """Bond types must have names and be one-hot."""
    given = data.get("edge_attr")
    if given is None:
        return
    width = given.shape[1] if given.dim() == 2 else 1
    if given.dim() != 2 or width != len(columns.edge_names):
        raise InputError(
            f"chemistry: {where} has edge_attr of shape {tuple(given.shape)} and the schema names "
            f"{len(columns.edge_names)} of its columns; say what they mean, for example "
            "dataclasses.replace(schema, edge_names=('single', 'double', 'triple', 'aromatic')), in their own order; "
            "with names that are no bond types, bond orders count as unknown"
        )
    if columns.bonded and bool((places(given, columns) < 0).any()):
        raise InputError(f"chemistry: {where} has edges that are not exactly one of: {', '.join(columns.edge_names)}")


def places(values: Tensor, columns: Columns) -> Tensor:
    """One-hot bond types as places in BONDS; -1 for rows that are not one-hot, ``(...)``."""
    known = [(place, k) for place, k in enumerate(columns.bonds) if k >= 0]
    chosen = values[..., [k for _, k in known]]
    right = ((chosen == 1).sum(-1) == 1) & ((chosen != 0).sum(-1) == 1)
    places = torch.tensor([place for place, _ in known], device=values.device)[chosen.argmax(-1)]
    return torch.where(right, places, torch.full_like(places, -1))


def atoms_of(x: Tensor, columns: Columns) -> list[Atom]:
    """The atom of each node; one without a symbol where it is not exactly one element, or its charge is no number."""
    hot = x[:, list(columns.atoms)]
    right = ((hot == 1).sum(1) == 1) & ((hot != 0).sum(1) == 1)
    zero = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    charge, hydrogens = (zero if k is None else x[:, k] for k in (columns.charge, columns.hydrogens))
    right &= (charge == charge.round()) & (charge.abs() < 16)
    rows = zip(hot.argmax(1).tolist(), right.tolist(), charge.tolist(), hydrogens.tolist(), strict=True)
    return [Atom(columns.symbols[k], int(c), int(h)) if ok else Atom(None) for k, ok, c, h in rows]
