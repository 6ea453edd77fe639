"""One molecule before RDKit: what it refuses, after what the graph could not say was put right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, islice
from typing import Any, NamedTuple

from counteredge.errors import CapabilityError

__all__ = ["BONDS", "ROUND_TRIP", "UNLIMITED", "Atom", "Violation", "caps", "judge", "rdkit"]

BONDS = ("single", "double", "triple", "aromatic")
REPAIRS = 64  # placements of hydrogens and charges tried on an aromatic system that has no Kekulé structure
UNLIMITED = 99
ROUND_TRIP = -1  # stands for the molecule as a whole among its violating atoms


class Violation(NamedTuple):
    """What an atom that RDKit refuses is like; ``orders`` is the sum of its bond orders."""

    symbol: str | None
    charge: int
    orders: float


class Atom(NamedTuple):
    """What a node says of its atom; no symbol when it is no element."""

    symbol: str | None
    charge: int = 0
    hydrogens: int = 0


def rdkit() -> Any:
    """``rdkit.Chem``.

    Raises:
        CapabilityError: RDKit is not installed.
    """
    try:
        from rdkit import Chem
    except ImportError as error:
        raise CapabilityError("molecules are checked with RDKit: pip install 'counteredge[mol]'") from error
    return Chem


@cache
def caps() -> dict[str, int]:
    """The most that the bonds of an uncharged atom of each element may take, before RDKit's own clean-up."""
    table = rdkit().GetPeriodicTable()
    most = {}
    for number in range(1, 119):
        valences = list(table.GetValenceList(number))
        most[table.GetElementSymbol(number)] = UNLIMITED if min(valences) < 0 else max(valences)
    # nitro and azide groups, chlorates and their like are often drawn without charges, which the clean-up puts right
    return most | {"N": 5, "Cl": 7, "Br": 7, "I": 7}


def judge(
    atoms: Sequence[Atom], bonds: Sequence[tuple[int, int, int]], charged: bool
) -> tuple[Any, dict[int, Violation]]:
    """The molecule, sanitised where that is possible, and the atoms that RDKit refuses."""
    chem = rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():  # it would print each molecule that it refuses
        mol = _build(chem, atoms, bonds)
        if not charged:
            _separate_charges(mol)
        refused = _repair(chem, mol, charged)
        violations = {i: Violation(atoms[i].symbol, atoms[i].charge, _orders(mol.GetAtomWithIdx(i))) for i in refused}
        violations |= {i: Violation(None, 0, 0.0) for i, a in enumerate(atoms) if a.symbol is None}
        if violations:
            return mol, violations
        clean = chem.RWMol(mol)
        try:
            chem.SanitizeMol(clean)
            if chem.MolFromSmiles(chem.MolToSmiles(clean)) is not None:
                return clean, {}
        except (ValueError, RuntimeError):
            return mol, {ROUND_TRIP: Violation(None, 0, 0.0)}
        return clean, {ROUND_TRIP: Violation(None, 0, 0.0)}


def _build(chem: Any, atoms: Sequence[Atom], bonds: Sequence[tuple[int, int, int]]) -> Any:
    kinds = [getattr(chem.BondType, name.upper()) for name in BONDS]
    mol = chem.RWMol()
    for a in atoms:
        atom = chem.Atom(a.symbol or 0)
        atom.SetFormalCharge(a.charge)
        mol.AddAtom(atom)
    for i, j, kind in bonds:
        mol.AddBond(i, j, kinds[kind])
        if BONDS[kind] == "aromatic":
            mol.GetBondBetweenAtoms(i, j).SetIsAromatic(True)
            for end in (i, j):
                mol.GetAtomWithIdx(end).SetIsAromatic(True)
    for atom, a in zip(mol.GetAtoms(), atoms, strict=True):
        # elsewhere hydrogens follow from the bonds; here they decide where the double bonds of the ring can lie
        if a.symbol == "N" and a.hydrogens > 0 and atom.GetIsAromatic() and atom.GetDegree() == 2:
            atom.SetNumExplicitHs(1)
    return mol


def _separate_charges(mol: Any) -> None:
    """``N(=O)O`` of bond order 4 (nitro, N-oxide, nitrone without charges) becomes ``[N+](=O)[O-]``."""
    for atom in mol.GetAtoms():
        if atom.GetSymbol() == "N" and not atom.GetIsAromatic() and _orders(atom) == 4:
            _charge(atom, 1)


def _orders(atom: Any) -> float:
    """The sum of an atom's bond orders; an aromatic bond is one and a half."""
    return sum(b.GetBondTypeAsDouble() for b in atom.GetBonds())


def _terminal_oxygen(nitrogen: Any) -> Any | None:
    """The first oxygen that hangs on the atom alone, by a single bond."""
    for bond in nitrogen.GetBonds():
        other = bond.GetOtherAtom(nitrogen)
        if other.GetSymbol() == "O" and other.GetDegree() == 1 and bond.GetBondTypeAsDouble() == 1:
            return other
    return None


def _charge(nitrogen: Any, sign: int) -> None:
    """``sign=1``: a charge pair on N and its terminal oxygen; 0 takes it back."""
    oxygen = _terminal_oxygen(nitrogen)
    if oxygen is not None:
        nitrogen.SetFormalCharge(sign)
        oxygen.SetFormalCharge(-sign)


def _repair(chem: Any, mol: Any, charged: bool) -> set[int]:
    """Give aromatic systems without a Kekulé structure hydrogens or charge pairs, in place; the atoms still refused."""
    hopeless: set[int] = set()
    refused, system = _problems(chem, mol)
    while system and not system & hopeless:
        for chosen in _placements(mol, system, charged):
            _place(mol, chosen, 1)
            again, other = _problems(chem, mol)
            if not other & system:
                refused, system = again, other
                break
            _place(mol, chosen, 0)
        else:
            hopeless |= system
    return refused | system


def _problems(chem: Any, mol: Any) -> tuple[set[int], set[int]]:
    """Atoms that RDKit refuses by themselves, and all atoms of the first aromatic system without a Kekulé structure."""
    refused: set[int] = set()
    system: set[int] = set()
    for problem in chem.DetectChemistryProblems(mol):
        if problem.GetType() == "KekulizeException":
            system |= _aromatic_system(mol, problem.GetAtomIndices())
        else:
            refused.add(problem.GetAtomIdx())
    return refused, system


def _aromatic_system(mol: Any, seeds: Sequence[int]) -> set[int]:
    """All atoms that aromatic bonds join to the given ones."""
    found, todo = set(seeds), list(seeds)
    while todo:
        atom = mol.GetAtomWithIdx(todo.pop())
        ends = [b.GetOtherAtomIdx(atom.GetIdx()) for b in atom.GetBonds() if b.GetIsAromatic()]
        fresh = [e for e in ends if e not in found]
        found.update(fresh)
        todo += fresh
    return found


def _placements(mol: Any, system: set[int], charged: bool) -> Iterator[tuple[int, ...]]:
    """Sets of nitrogens to be changed, small ones first, at most REPAIRS of them."""
    candidates = []
    for i in sorted(system):
        atom = mol.GetAtomWithIdx(i)
        if atom.GetSymbol() != "N" or atom.GetFormalCharge() or atom.GetNumExplicitHs():
            continue
        if atom.GetDegree() == 2 or (atom.GetDegree() == 3 and not charged and _terminal_oxygen(atom) is not None):
            candidates.append(i)
    sets = (c for size in range(1, len(candidates) + 1) for c in combinations(candidates, size))
    return islice(sets, REPAIRS)


def _place(mol: Any, chosen: Sequence[int], value: int) -> None:
    for i in chosen:
        atom = mol.GetAtomWithIdx(i)
        if atom.GetDegree() == 2:
            atom.SetNumExplicitHs(value)
        else:
            _charge(atom, value)
