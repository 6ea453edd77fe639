"""Molecules one chemical step away: known counts, and what has to hold of each of them."""

import sys

import pytest

import counteredge as ce
from counteredge.chemistry.successors import every_successor, successors

Chem = pytest.importorskip("rdkit.Chem")
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


def of(smiles, elements="C", **options):
    return [s.smiles for s in successors(Chem.MolFromSmiles(smiles), elements, **options)]


@pytest.mark.parametrize(
    ("smiles", "elements", "both", "additions"),
    [
        ("C", "C", 3, 3),
        ("CC", "C", 6, 5),
        ("CCO", "CO", 16, 14),
        ("CC(=O)O", "CO", 11, 7),
        ("c1ccccc1", "C", 1, 1),
        ("CCCCC", "C", 15, 14),
        ("CCN", "CN", 20, 18),
        ("CCS", "CS", 17, 15),
        (ASPIRIN, "CO", 27, 21),
    ],
)
def test_known_counts(smiles, elements, both, additions):
    assert len(of(smiles, elements)) == both
    assert len(of(smiles, elements, removal=False)) == additions
    molecule = Chem.MolFromSmiles(smiles)
    lessened = {s.smiles for s in every_successor(molecule, elements, addition=False)}
    assert lessened | set(of(smiles, elements, removal=False)) == set(of(smiles, elements))


@pytest.mark.parametrize(
    ("smiles", "elements", "expected"),
    [
        ("O", "O", ["OO", "O=O"]),  # valence below 4: two bonds at most
        ("N", "ON", ["NO", "NN", "N=O", "N=N", "N#N"]),
        ("C", "F", ["CF"]),
        ("C", ["Cl", "Br"], ["CCl", "CBr"]),
        ("C", "S", ["CS", "C=S", "C#[SH]"]),  # up to six
        ("C", "P", ["CP", "C=P", "C#P"]),
        ("C", ["Na"], ["[CH3][Na]"]),
        ("C", ["Fe"], ["[CH3][Fe]"]),  # no valence is known
        ("[Na]", ["Na"], []),
        ("[He]", "C", []),
        ("C", [], []),
    ],
)
def test_elements_of_every_valence(smiles, elements, expected):
    assert of(smiles, elements) == expected


def test_rings_are_closed_in_the_sizes_that_are_allowed():
    assert "C1CCCC1" in of("CCCCC")
    assert "C1CCC1" not in of("CCCC")
    assert "C1CCC1" in of("CCCC", ring_sizes=(4,))
    assert "C1CCCC1" not in of("CCCCC", ring_sizes=())
    two_rings = "C1CCC(CC1)C1CCCCC1"
    every, apart = (of(two_rings, removal=False, between_rings=b) for b in (True, False))
    joined = {Chem.MolFromSmiles(s).GetRingInfo().NumRings() for s in set(every) - set(apart)}
    assert min(joined) == 3
    assert {Chem.MolFromSmiles(s).GetRingInfo().NumRings() for s in apart} == {2}


def test_aromatic_bonds_stay():
    ring = Chem.MolFromSmiles("Cc1ccccc1")
    for s in every_successor(ring, "C", ring_sizes=()):
        assert sum(b.GetIsAromatic() for b in s.molecule.GetBonds()) == 6
    assert of("Cc1ccccc1")[-1] == "c1ccccc1"  # the methyl group may go


def test_what_falls_apart_is_left_out():
    assert "CC" in of("CCCl", ["C", "Cl"])  # a single atom goes with its bond, however its symbol is spelt
    assert not any("." in s for s in of("CCOCC", "CO"))
    assert [s.smiles for s in every_successor(Chem.MolFromSmiles("CC=O"), "C", addition=False)] == ["C=O", "CCO", "CC"]


def test_the_molecule_itself_on_demand():
    assert "CCO" not in of("CCO", "CO")
    assert of("CCO", "CO", no_op=True) == [*of("CCO", "CO"), "CCO"]


@pytest.mark.parametrize("smiles", ["CCO", ASPIRIN, "O=[N+]([O-])c1ccccc1", "c1cc[nH]c1", "C.O", "[NH4+]", "CC#N"])
def test_atoms_are_those_of_the_parent(smiles):
    molecule = Chem.MolFromSmiles(smiles)
    elements = sorted({a.GetSymbol() for a in molecule.GetAtoms()})
    symbols = [a.GetSymbol() for a in molecule.GetAtoms()]
    every = list(every_successor(molecule, elements))
    assert [s.smiles for s in every] == [s.smiles for s in every_successor(molecule, elements)]
    for s in every:
        assert Chem.MolToSmiles(molecule) == Chem.CanonSmiles(smiles)  # nothing happened to it
        assert Chem.MolFromSmiles(s.smiles) is not None
        parents = [a for a in s.atoms if a >= 0]
        assert parents == sorted(set(parents))
        assert [symbols[a] for a in parents] == [
            atom.GetSymbol() for atom, a in zip(s.molecule.GetAtoms(), s.atoms, strict=True) if a >= 0
        ]
        assert s.molecule.GetNumAtoms() == len(symbols) + {"atom": 1, "bond": 0}.get(
            s.kind, len(parents) - len(symbols)
        )
        if s.kind == "atom":
            assert s.atoms == (*range(len(symbols)), -1)


def test_no_such_element():
    with pytest.raises(ce.InputError, match="'Xx' is no chemical element"):
        of("C", ["Xx"])


def test_rdkit_is_needed_only_when_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ce.CapabilityError, match=r"counteredge\[mol\]"):
        successors(None, "C")
