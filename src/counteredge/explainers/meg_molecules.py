"""One graph as a molecule, its successors as graphs again: what MEG walks through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from counteredge.chemistry.judge import BONDS, judge, rdkit
from counteredge.chemistry.reading import Columns, read
from counteredge.chemistry.successors import NEW, every_successor
from counteredge.descriptors import refreshed
from counteredge.edits import AttributeEdit, EditSet, FeatureEdit, Pair
from counteredge.engine.search import Search

if TYPE_CHECKING:
    from rdkit import Chem

__all__ = ["BITS", "Candidate", "Molecules", "tanimoto"]

BITS = 1024
RADIUS = 2
NOWHERE = "the graph has no way to write the bond or atom"


@dataclass(frozen=True)
class Candidate:
    """An edited graph that is a molecule.

    Attributes:
        edits: What leads to it from the original.
        data: The graph.
        molecule: The molecule that the graph describes; atom ``i`` is node ``i``.
        smiles: Its canonical SMILES.
        origin: The node of the original that each node is, -1 of new ones.
    """

    edits: EditSet
    data: Data
    molecule: Chem.Mol
    smiles: str
    origin: tuple[int, ...]

    @cached_property
    def fingerprint(self) -> Tensor:
        """Morgan fingerprint of radius 2 in 1024 bits, ``(1024,)`` of 0 and 1."""
        from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

        bits = GetMorganGenerator(radius=RADIUS, fpSize=BITS).GetFingerprint(self.molecule)
        out = torch.zeros(BITS, dtype=torch.uint8)
        out[list(bits.GetOnBits())] = 1
        return out


def tanimoto(one: Tensor, other: Tensor) -> float:
    """Bits that both have over bits that either has; 1 for two fingerprints without any."""
    both, either = int((one & other).sum()), int((one | other).sum())
    return both / either if either else 1.0


class Molecules:
    """The molecules around one graph of a search, as graphs.

    A successor is written into the graph by what it changes: bonds and atoms that the molecule shares with the original
    keep their rows, so that the original itself is written as it was. Then the graph is read again, since it is all
    that the model sees: what is no molecule any more is left out, and where a graph has no charges (or no bond types),
    the molecule is the one that it describes without.

    Args:
        search: The graphs and what may change.
        row: Which of them.
        ring_sizes: Sizes of rings that a new bond may close.
        between_rings: Whether a new bond may join two atoms that lie in rings already.

    Attributes:
        start: The original; ``None`` when it is no molecule.
        reason: Why it is none.
        refused: How many successors could not be taken, by reason.
    """

    def __init__(self, search: Search, row: int, *, ring_sizes: Collection[int], between_rings: bool) -> None:
        self.allowed, self.row = search.moves.allowed, row
        self.schema, self.follows = self.allowed.schema, search.oracle.follows
        self.graph = search.base.graphs[row]
        self.n = len(self.graph.x)
        self.x = self.graph.x.reshape(self.n, -1)
        self.options: dict[str, Any] = {"ring_sizes": ring_sizes, "between_rings": between_rings}
        self.columns = Columns.of(self.schema)
        self.bonded = self.columns.bonded and self.graph.get("edge_attr") is not None
        names = {self.schema.columns[k].name: k for k in self.columns.following}
        self.told = {"aromatic": names.get("aromatic"), "hydrogens": names.get("hydrogens")}
        self.told["charge"] = self.columns.charge
        self.refused: Counter[str] = Counter()
        self.known: dict[str, list[Candidate]] = {}
        self.reason = ""
        self.start = self._read(EditSet(), self.graph, tuple(range(self.n)))
        if self.start is None:
            self.reason = "the graph is no molecule that RDKit sanitises and reads back from its SMILES"
            return
        self.bonds = _bonds(self.start.molecule, range(self.n))
        self.before = [_told(atom) for atom in self.start.molecule.GetAtoms()]
        self.elements = tuple(dict.fromkeys(a.GetSymbol() for a in self.start.molecule.GetAtoms()))

    def successors(self, candidate: Candidate) -> list[Candidate]:
        """The different molecules one step on, without the original; of several ways the one with the fewest edits."""
        if candidate.smiles in self.known:
            return self.known[candidate.smiles]
        found: dict[str, Candidate] = {}
        for each in self._every(candidate):
            if each.smiles not in found or len(each.edits) < len(found[each.smiles].edits):
                found[each.smiles] = each
        if self.start is not None:
            found.pop(self.start.smiles, None)
        self.known[candidate.smiles] = list(found.values())
        return self.known[candidate.smiles]

    def _every(self, candidate: Candidate) -> Iterator[Candidate]:
        adds, removes = self.allowed.adds, self.allowed.removes
        tried = {EditSet(), candidate.edits}
        for s in every_successor(candidate.molecule, self.elements, addition=adds, removal=removes, **self.options):
            origin = tuple(NEW if a == NEW else candidate.origin[a] for a in s.atoms)
            edits = self._edits(origin, s.molecule)
            if edits is None:
                self.refused[NOWHERE] += 1
                continue
            if edits in tried:
                continue
            tried.add(edits)
            if why := self._forbidden(edits):
                self.refused[why] += 1
                continue
            each = self._read(edits, edits.apply(self.graph, self.follows), origin)
            if each is not None:
                yield each

    def _read(self, edits: EditSet, data: Data, origin: tuple[int, ...]) -> Candidate | None:
        mol, violations = judge(*read(data, self.schema))
        return None if violations else Candidate(edits, data, mol, rdkit().MolToSmiles(mol), origin)

    # -- writing -----------------------------------------------------------------------------------------------------

    def _edits(self, origin: Sequence[int], molecule: Chem.Mol) -> EditSet | None:
        """What leads from the original to a molecule; ``None`` where the graph cannot say it."""
        fresh = iter(range(self.n, self.n + len(origin)))
        names = [next(fresh) if v == NEW else v for v in origin]
        bonds = _bonds(molecule, names)
        added, removed = sorted(bonds.keys() - self.bonds), sorted(self.bonds.keys() - bonds)
        other = [p for p in sorted(self.bonds.keys() & bonds) if bonds[p] != self.bonds[p]] if self.bonded else []
        rows = {p: self._bond(p, bonds, molecule, names) for p in (*added, *other)} if self.bonded else {}
        if None in rows.values():
            return None
        atoms = dict(zip(names, molecule.GetAtoms(), strict=True))
        edits = EditSet(
            added=tuple(added),
            removed=tuple(removed),
            features=tuple(e for v in names if v < self.n for e in self._features(v, atoms[v])),
            values=(("edge_attr", tuple(rows[p] for p in added)),) if self.bonded and added else (),
            new_nodes=self._nodes(atoms),
            removed_nodes=tuple(v for v in range(self.n) if v not in atoms),
            attributes=tuple(e for p in other if (e := self._attribute(p, rows[p])) is not None),
            nodes=self.n,
        )
        return self._with_derived(edits)

    def _bond(
        self, pair: Pair, bonds: dict[Pair, str], molecule: Chem.Mol, names: Sequence[int]
    ) -> tuple[float, ...] | None:
        """The row of ``edge_attr`` of a bond; where the graph has no aromatic ones, that of a Kekulé structure."""
        kind = bonds[pair]
        if kind == "aromatic" and self.columns.bonds[BONDS.index(kind)] < 0:
            plain = rdkit().Mol(molecule)
            rdkit().Kekulize(plain, clearAromaticFlags=True)
            kind = _bonds(plain, names)[pair]
        at = self.columns.bonds[BONDS.index(kind)] if kind in BONDS else -1
        return None if at < 0 else tuple(float(k == at) for k in range(len(self.columns.edge_names)))

    def _attribute(self, pair: Pair, new: tuple[float, ...] | None) -> AttributeEdit | None:
        src, dst = self.graph.edge_index
        at = int(((src == pair[0]) & (dst == pair[1]) | (src == pair[1]) & (dst == pair[0])).nonzero()[0])
        old = tuple(self.graph.edge_attr[at].tolist())
        return None if old == new else AttributeEdit(pair, "edge_attr", old, new)

    def _features(self, node: int, atom: Chem.Atom) -> list[FeatureEdit]:
        """Columns that say what an atom's bonds say, where they say another thing now."""
        found = []
        now = _told(atom)
        for k, name in sorted((k, name) for name, k in self.told.items() if k is not None):
            old = float(self.x[node, k])
            if now[name] != self.before[node][name] and now[name] != old:
                found.append(FeatureEdit(node, (k,), (old,), (now[name],)))
        return found

    def _nodes(self, atoms: dict[int, Chem.Atom]) -> tuple[tuple[float, ...], ...]:
        """Rows of new atoms; columns that say nothing of chemistry are as at the atom that each is bound to."""
        rows: dict[int, list[float]] = {}
        place = {atom.GetIdx(): v for v, atom in atoms.items()}
        for v in sorted(v for v in atoms if v >= self.n):
            beside = min(place[a.GetIdx()] for a in atoms[v].GetNeighbors())
            row = self.x[beside].tolist() if beside < self.n else list(rows[beside])
            for k, symbol in zip(self.columns.atoms, self.columns.symbols, strict=True):
                row[k] = float(symbol == atoms[v].GetSymbol())
            for name, value in _told(atoms[v]).items():
                at = self.told[name]
                if at is not None:
                    row[at] = value
            rows[v] = row
        return tuple(map(tuple, rows.values()))

    def _with_derived(self, edits: EditSet) -> EditSet:
        """New nodes get the descriptors of the edited graph where the other nodes keep theirs."""
        at = list(self.schema.derived)
        if not at or not edits.new_nodes:
            return edits
        due = (
            refreshed([edits.apply(self.graph)], self.schema)[0]
            .x.reshape(-1, self.x.shape[1])[-len(edits.new_nodes) :, at]
            .tolist()
        )
        rows = [list(row) for row in edits.new_nodes]
        for row, values in zip(rows, due, strict=True):
            for k, value in zip(at, values, strict=True):
                row[k] = value
        return replace(edits, new_nodes=tuple(map(tuple, rows)))

    # -- limits ------------------------------------------------------------------------------------------------------

    def _forbidden(self, edits: EditSet) -> str:
        """Which limit of the edit space the edits break; empty when none."""
        allowed = self.allowed
        within, free, features = allowed.within[self.row], allowed.free[self.row], allowed.features[self.row]
        own = [p for p in (*edits.added, *edits.removed, *(e.pair for e in edits.attributes)) if max(p) < self.n]
        bound = [v for p in edits.added if max(p) >= self.n for v in p if v < self.n]
        if (edits.new_nodes and not allowed.grows) or (edits.removed_nodes and not allowed.nodes):
            return "no atom may come or go"
        if (edits.added and not allowed.adds) or (edits.removed and not allowed.removes):
            return "the edit space lets no edge be added, or none be removed"
        if not all(bool(within[p]) for p in own) or not all(bool(free[v]) for v in (*bound, *edits.removed_nodes)):
            return "a frozen atom or bond would change"
        for e in edits.features:
            (k,), (old,), (new,) = e.columns, e.old, e.new
            column = allowed.schema.columns[k]
            if not bool(features[e.node, k]) or not bool((allowed.rise if new > old else allowed.fall)[k]):
                return f"the column {column.name!r} follows the bonds, and the edit space lets it not change"
            if column.kind != "binary" and not column.lo <= new <= column.hi:
                return f"the column {column.name!r} would leave its bounds"
        if allowed.max_degree is not None:
            before, after = (self._degrees(pairs) for pairs in (self.bonds.keys(), self._pairs(edits)))
            if any(d > max(allowed.max_degree, before[v]) for v, d in after.items()):
                return f"an atom would have more than {allowed.max_degree} neighbours"
        return ""

    def _pairs(self, edits: EditSet) -> set[Pair]:
        return (set(self.bonds) - set(edits.removed)) | set(edits.added)

    def _degrees(self, pairs: Collection[Pair]) -> Counter[int]:
        return Counter(v for pair in pairs for v in pair)


def _told(atom: Chem.Atom) -> dict[str, float]:
    """What columns of these names say of an atom."""
    return {
        "aromatic": float(atom.GetIsAromatic()),
        "hydrogens": float(atom.GetTotalNumHs()),
        "charge": float(atom.GetFormalCharge()),
    }


def _bonds(molecule: Chem.Mol, names: Sequence[int]) -> dict[Pair, str]:
    """The kind of each bond, by the names of its ends."""
    found = {}
    for bond in molecule.GetBonds():
        i, j = sorted((names[bond.GetBeginAtomIdx()], names[bond.GetEndAtomIdx()]))
        found[i, j] = "aromatic" if bond.GetIsAromatic() else bond.GetBondType().name.lower()
    return found
