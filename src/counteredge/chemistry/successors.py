"""Which molecules are one step away: an atom more, a bond more or of higher order, a bond less or of lower order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from counteredge.chemistry.judge import caps, rdkit
from counteredge.errors import InputError

if TYPE_CHECKING:
    from rdkit import Chem

__all__ = ["RING_SIZES", "Successor", "every_successor", "successors"]

RING_SIZES = (5, 6)
ORDERS = (1, 2, 3)
NEW = -1  # the parent of an atom that has none
Kind = Literal["atom", "bond", "removal", "none"]


class Successor(NamedTuple):
    """A molecule one step away.

    Attributes:
        molecule: Sanitised.
        smiles: Its canonical SMILES.
        kind: ``"atom"``: one more; ``"bond"``: one more, or of higher order; ``"removal"``: one less, or of lower
            order; ``"none"``: the molecule itself.
        atoms: The atom of the parent that each of its atoms is, -1 of the new one.
    """

    molecule: Chem.Mol
    smiles: str
    kind: Kind
    atoms: tuple[int, ...]


def successors(
    molecule: Chem.Mol,
    elements: Collection[str],
    *,
    removal: bool = True,
    ring_sizes: Collection[int] = RING_SIZES,
    between_rings: bool = True,
    no_op: bool = False,
) -> list[Successor]:
    """The different molecules one step away from a sanitised one, by canonical SMILES.

    - *Atom*: each element, bound by order ``i = 1, 2, 3`` to each atom with at least ``i`` implicit hydrogens, where
      the element has a valence of ``i`` or more.
    - *Bond*: each pair of atoms with at least ``i`` implicit hydrogens. A bond between them that is not aromatic has
      its order raised by ``i`` (up to 3); where there is none, one of order ``i`` closes a ring if the shortest way
      between the atoms has an allowed number of atoms.
    - *Removal*: each bond that is not aromatic has its order lowered by ``i``. One that vanishes must leave one piece,
      or one piece and a single atom, which goes with it.

    Everything that RDKit does not sanitise is left out. The order is that of the list above, by atoms and bonds.

    Args:
        molecule: A sanitised molecule; it stays as it is.
        elements: Symbols of atoms that may be added.
        removal: Whether bonds may be removed and lowered.
        ring_sizes: Sizes of rings that a new bond may close.
        between_rings: Whether a new bond may join two atoms that lie in rings already.
        no_op: Whether the molecule itself is one of them.

    Raises:
        CapabilityError: RDKit is not installed.
        InputError: An element that there is none of.

    Source:
        Zhou et al., Optimization of Molecules via Deep Reinforcement Learning (Scientific Reports 2019); Numeroso &
        Bacciu, MEG (IJCNN 2021).

    Example:
        >>> from rdkit import Chem
        >>> [s.smiles for s in successors(Chem.MolFromSmiles("CC"), ["C"])]
        ['CCC', 'C=CC', 'C#CC', 'C=C', 'C#C', 'C']
    """
    found: dict[str, Successor] = {}
    options: dict[str, Any] = {
        "removal": removal,
        "ring_sizes": ring_sizes,
        "between_rings": between_rings,
        "no_op": no_op,
    }
    for s in every_successor(molecule, elements, **options):
        found.setdefault(s.smiles, s)
    return list(found.values())


def every_successor(
    molecule: Chem.Mol,
    elements: Collection[str],
    *,
    addition: bool = True,
    removal: bool = True,
    ring_sizes: Collection[int] = RING_SIZES,
    between_rings: bool = True,
    no_op: bool = False,
) -> Iterator[Successor]:
    """The same, with every way that leads to a molecule; with ``addition=False`` removals alone."""
    chem = rdkit()
    from rdkit import rdBase

    valences = {symbol: _valence(symbol) for symbol in dict.fromkeys(elements)}
    with rdBase.BlockLogs():  # it would print each molecule that it refuses
        found: list[Successor | None] = []
        if addition:
            free = {i: [a.GetIdx() for a in molecule.GetAtoms() if a.GetNumImplicitHs() >= i] for i in ORDERS}
            found += _atoms_added(chem, molecule, free, valences)
            found += _bonds_added(chem, molecule, free, frozenset(ring_sizes), between_rings)
        if removal:
            found += _bonds_removed(chem, molecule)
        if no_op:
            found.append(_checked(chem, chem.RWMol(molecule), "none", range(molecule.GetNumAtoms())))
    yield from (s for s in found if s is not None)


def _valence(symbol: str) -> int:
    """The largest valence of an element; 1 where RDKit knows none, as of most metals."""
    if symbol not in caps():
        raise InputError(f"{symbol!r} is no chemical element")
    return abs(max(rdkit().GetPeriodicTable().GetValenceList(symbol)))


def _checked(chem: Any, mol: Chem.RWMol, kind: Kind, atoms: Sequence[int]) -> Successor | None:
    """The successor, unless RDKit does not sanitise it."""
    if chem.SanitizeMol(mol, catchErrors=True) != chem.SanitizeFlags.SANITIZE_NONE:
        return None
    return Successor(mol, chem.MolToSmiles(mol), kind, tuple(atoms))


def _order(chem: Any, order: int) -> Any:
    return (chem.BondType.SINGLE, chem.BondType.DOUBLE, chem.BondType.TRIPLE)[order - 1]


def _kekulized(chem: Any, molecule: Chem.Mol) -> Chem.RWMol:
    mol = chem.RWMol(molecule)
    chem.Kekulize(mol, clearAromaticFlags=True)
    return mol


def _atoms_added(
    chem: Any, molecule: Chem.Mol, free: dict[int, list[int]], valences: dict[str, int]
) -> Iterator[Successor | None]:
    n = molecule.GetNumAtoms()
    for order in ORDERS:
        for atom in free[order]:
            for symbol, valence in valences.items():
                if valence >= order:
                    mol = chem.RWMol(molecule)
                    mol.AddBond(atom, mol.AddAtom(chem.Atom(symbol)), _order(chem, order))
                    yield _checked(chem, mol, "atom", (*range(n), NEW))


def _bonds_added(
    chem: Any, molecule: Chem.Mol, free: dict[int, list[int]], ring_sizes: frozenset[int], between_rings: bool
) -> Iterator[Successor | None]:
    atoms = range(molecule.GetNumAtoms())
    for i in ORDERS:
        for one, other in combinations(free[i], 2):
            bond = molecule.GetBondBetweenAtoms(one, other)
            if bond is not None:
                order = i + int(bond.GetBondTypeAsDouble())
                if bond.GetIsAromatic() or order > max(ORDERS):
                    continue
                mol = _kekulized(chem, molecule)
                mol.GetBondBetweenAtoms(one, other).SetBondType(_order(chem, order))
            else:
                ends = (molecule.GetAtomWithIdx(end) for end in (one, other))
                if not between_rings and all(end.IsInRing() for end in ends):
                    continue
                if len(chem.GetShortestPath(molecule, one, other)) not in ring_sizes:
                    continue
                mol = _kekulized(chem, molecule)
                mol.AddBond(one, other, _order(chem, i))
            yield _checked(chem, mol, "bond", atoms)


def _bonds_removed(chem: Any, molecule: Chem.Mol) -> Iterator[Successor | None]:
    n = molecule.GetNumAtoms()
    for bond in molecule.GetBonds():
        if bond.GetIsAromatic():
            continue
        one, other = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        order = int(bond.GetBondTypeAsDouble())
        for i in range(1, order + 1):
            mol = _kekulized(chem, molecule)
            kept = list(range(n))
            if i < order:
                mol.GetBondBetweenAtoms(one, other).SetBondType(_order(chem, order - i))
            else:
                mol.RemoveBond(one, other)
                pieces = chem.GetMolFrags(mol)
                if len(pieces) > 2 or (len(pieces) == 2 and min(map(len, pieces)) > 1):
                    continue
                if len(pieces) == 2:
                    # of two single atoms the first one stays
                    (alone,) = min(reversed(pieces), key=len)
                    mol.RemoveAtom(alone)
                    kept.remove(alone)
            yield _checked(chem, mol, "removal", kept)
