"""Answers of ``EditSpace(chemistry="valence")`` are molecules: RDKit sanitises them and reads them back."""

import itertools
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

import counteredge as ce
from counteredge.chemistry import Chemistry, elements_by_number, molecule, new_bonds, valid_molecule
from counteredge.chemistry.judge import _build, caps
from counteredge.chemistry.reading import read
from counteredge.graphs import GraphBatch

Chem = pytest.importorskip("rdkit.Chem")

ELEMENTS = ("C", "N", "O", "F", "S", "P", "Se")
BONDS = ("single", "double", "triple", "aromatic")
SCHEMA = replace(ce.FeatureSchema.onehot(ELEMENTS), edge_names=BONDS)
RING = tuple((i, (i + 1) % 6, "aromatic") for i in range(6))


def graph(symbols, bonds, elements=ELEMENTS, names=BONDS, more=None):
    """A graph from one letter or name an atom and ``(i, j, kind)`` a bond."""
    x = torch.zeros(len(symbols), len(elements))
    for i, s in enumerate(symbols):
        x[i, elements.index(s)] = 1
    if more is not None:
        x = torch.cat([x, torch.tensor(more, dtype=torch.float)], 1)
    ends = [e for i, j, _ in bonds for e in ((i, j), (j, i))]
    attr = torch.zeros(len(ends), len(names))
    for k, (_, _, kind) in enumerate(bonds):
        attr[2 * k : 2 * k + 2, names.index(kind)] = 1
    return Data(x=x, edge_index=torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous(), edge_attr=attr)


def chain(symbols, kind="single"):
    return graph(symbols, [(i, i + 1, kind) for i in range(len(symbols) - 1)])


def smiles(data, schema=SCHEMA):
    return Chem.MolToSmiles(molecule(data, schema))


ETHANOL = chain("CCO")
BENZENE = graph("CCCCCC", RING)
# charges are not in the graph, as in the TU collection: N with a single and a double bond to oxygen
NITROBENZENE = graph("CCCCCCNOO", [*RING, (0, 6, "single"), (6, 7, "double"), (6, 8, "single")])
PYRROLE = graph("CCCCN", [(i, (i + 1) % 5, "aromatic") for i in range(5)])
IMIDAZOLE = graph("CNCCN", [(i, (i + 1) % 5, "aromatic") for i in range(5)])
PYRIDINE_OXIDE = graph("CCCCCNO", [*RING[:6], (5, 6, "single")])
PENTAVALENT = graph("CCCCCC", [(0, i, "single") for i in range(1, 6)])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(ETHANOL, "CCO", id="ethanol"),
        pytest.param(BENZENE, "c1ccccc1", id="benzene"),
        pytest.param(NITROBENZENE, "O=[N+]([O-])c1ccccc1", id="nitrobenzene without charges"),
        pytest.param(chain("CNO", "double"), None, id="five-valent nitrogen with a chain of double bonds"),
        pytest.param(PYRROLE, "c1cc[nH]c1", id="pyrrole without hydrogens"),
        pytest.param(IMIDAZOLE, "c1c[nH]cn1", id="imidazole: one nitrogen of two gets the hydrogen"),
        pytest.param(PYRIDINE_OXIDE, "[O-][n+]1ccccc1", id="pyridine oxide without charges"),
        pytest.param(PENTAVALENT, None, id="five-valent carbon"),
        pytest.param(graph("CCCCCC", RING[:5]), None, id="aromatic bonds outside of a ring"),
        pytest.param(graph("CCCCC", [(i, (i + 1) % 5, "aromatic") for i in range(5)]), None, id="no Kekule structure"),
        pytest.param(chain("FFC"), None, id="two-valent fluorine"),
        pytest.param(graph("CO", []), "C.O", id="two fragments"),
    ],
)
def test_molecules_by_hand(data, expected):
    assert valid_molecule(data, SCHEMA) == (expected is not None)
    if expected is not None:
        assert smiles(data) == Chem.CanonSmiles(expected)
        assert [a.GetSymbol() for a in molecule(data, SCHEMA).GetAtoms()] == [
            ELEMENTS[k] for k in data.x.argmax(1).tolist()
        ]


# fused rings with a double bond to a ring atom: RDKit takes them, and cannot read what it writes of them
SANITISED_ONLY = [
    graph(
        "NOCCCCN",
        [(0, 1, "aromatic"), (0, 6, "aromatic"), (1, 2, "double"), (2, 3, "aromatic"), (2, 5, "aromatic"),
         (3, 4, "aromatic"), (4, 5, "double"), (5, 6, "aromatic")],
    ),
    graph(
        "PSNCC",
        [(0, 1, "aromatic"), (0, 3, "aromatic"), (0, 4, "aromatic"), (1, 2, "double"), (2, 3, "aromatic"),
         (3, 4, "aromatic")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(SANITISED_ONLY[0], id="rdkit#2009, rdkit#5849: written as it cannot be read"),
        pytest.param(SANITISED_ONLY[1], id="gflownet PR#80: sanitised, and no SMILES that parses"),
    ],
)
def test_sanitised_is_not_enough(data):
    atoms, bonds, _ = read(data, SCHEMA)
    mol = _build(Chem, atoms, bonds)
    Chem.SanitizeMol(mol)  # takes it
    assert Chem.MolFromSmiles(Chem.MolToSmiles(mol)) is None
    assert not valid_molecule(data, SCHEMA)


def test_columns_for_charge_and_hydrogens_are_read():
    columns = (
        *SCHEMA.columns,
        ce.Column("integer", lo=-1, hi=1, name="charge"),
        ce.Column("integer", hi=4, name="hydrogens"),
    )
    schema = ce.FeatureSchema(columns, BONDS)
    bonds = [(0, i, "single") for i in range(1, 5)]
    ammonium = graph("NCCCC", bonds, more=[[1, 0], *[[0, 3]] * 4])
    assert smiles(ammonium, schema) == "C[N+](C)(C)C"
    neutral = graph("NCCCC", bonds, more=[[0, 0], *[[0, 3]] * 4])
    assert not valid_molecule(neutral, schema)
    half = graph("NCCCC", bonds, more=[[0.5, 0], *[[0, 3]] * 4])
    assert not valid_molecule(half, schema)
    # where charges are given none is made up
    assert not valid_molecule(
        graph("CNOO", [(0, 1, "single"), (1, 2, "double"), (1, 3, "single")], more=[[0, 0]] * 4), schema
    )
    ring = [(i, (i + 1) % 5, "aromatic") for i in range(5)]
    methyl = (2, 5, "single")
    for carrier in (1, 4):  # 4- and 5-methylimidazole differ in nothing else
        hydrogens = [[0, int(i == carrier)] for i in range(6)]
        mol = molecule(graph("CNCCNC", [*ring, methyl], more=hydrogens), schema)
        assert [a.GetIdx() for a in mol.GetAtoms() if a.GetSymbol() == "N" and a.GetTotalNumHs()] == [carrier]


def test_bond_types_come_by_name_not_by_place():
    mutag = ("aromatic", "single", "double", "triple")
    data = graph("CCO", [(0, 1, "single"), (1, 2, "double")], names=mutag)
    assert smiles(data, replace(SCHEMA, edge_names=mutag)) == "CC=O"
    assert not valid_molecule(data, SCHEMA)  # the same columns read in another order


def test_without_bond_types_only_neighbours_count():
    benzene = Data(x=BENZENE.x, edge_index=BENZENE.edge_index)
    assert smiles(benzene) == "C1CCCCC1"
    assert not valid_molecule(Data(x=PENTAVALENT.x, edge_index=PENTAVALENT.edge_index), SCHEMA)
    length = Data(x=BENZENE.x, edge_index=BENZENE.edge_index, edge_attr=torch.rand(12, 1))
    assert valid_molecule(length, replace(SCHEMA, edge_names=("length",)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_dtypes(dtype):
    data = NITROBENZENE.clone()
    data.x = data.x.to(dtype)
    assert valid_molecule(data, SCHEMA)


def test_columns_that_say_what_the_bonds_say_are_not_edited():
    names = ("charge", "hydrogens", "aromatic")
    columns = (*SCHEMA.columns, *(ce.Column("integer", lo=-1, hi=4, name=n) for n in names))
    data = graph("CCO", [(0, 1, "single"), (1, 2, "single")], more=[[0, 3, 0], [0, 2, 0], [0, 1, 0]])
    base = GraphBatch.from_graphs([data])
    free = ce.EditSpace(chemistry="valence").allowed(base, ce.FeatureSchema(columns, BONDS)).features[0].all(0)
    assert free.tolist() == [True] * 8 + [False] * 2


# -- search ----------------------------------------------------------------------------------------------------------


class Weighted(torch.nn.Module):
    """Says 1 when the elements' weights, and the edges, sum to more than a threshold."""

    def __init__(self, weights, edge=1.0, threshold=0.0):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.tensor([weights]))
        self.edge, self.threshold = edge, threshold

    def forward(self, x, edge_index, batch):
        size = int(batch.max()) + 1
        edges = torch.bincount(batch[edge_index[0]], minlength=size).to(x.dtype) / 2
        total = global_add_pool(
            (x[:, : self.weights.shape[1]] * self.weights.to(x.dtype)).sum(1, keepdim=True), batch, size
        )[:, 0]
        z = total + self.edge * edges - self.threshold
        return torch.stack([-z, z], 1)


def search(model, data, schema=SCHEMA, explainer=None, budget=None, **space):
    explainer = explainer or ce.XPlore(depth=4, restarts=1)
    return explainer.explain(model, data, edits=ce.EditSpace(schema=schema, **space), budget=budget, progress=False)


def test_a_swap_that_breaks_the_valence_is_no_answer():
    # fluorine weighs most: without chemistry the middle of neopentane becomes one, with it a methyl group
    neopentane = graph("CCCCC", [(0, i, "single") for i in range(1, 5)])
    model = Weighted([0.0, 0, 0, 1.0, 0, 0, 0], edge=0.0, threshold=0.5)
    options = {"add_edges": False, "remove_edges": False, "allowed_pairs": []}
    free, kept = (search(model, neopentane, chemistry=c, **options) for c in (None, "valence"))
    assert free.found
    assert not valid_molecule(free.data, SCHEMA)
    assert free.edits.features[0].node == 0
    assert kept.found
    assert smiles(kept.data) == "CC(C)(C)F"
    assert kept.minimal


def test_a_new_bond_is_single_and_has_room():
    # three more edges than atoms' bonds allow on a fluorinated chain: only the carbons have hydrogens to give
    data = chain("FCCF")
    model = Weighted([0.0] * 7, threshold=3.5)
    options = {"features": False, "remove_edges": False}
    free, kept = (search(model, data, chemistry=c, frozen_edges=[(0, 1)], **options) for c in (None, "valence"))
    assert free.found
    assert not valid_molecule(free.data, SCHEMA)
    assert not kept.found  # each pair left has a fluorine, and a double bond is no new edge
    ring = search(model, chain("CCCF"), chemistry="valence", **options)
    assert ring.edits.added == ((0, 2),)
    assert smiles(ring.data) == "FC1CC1"
    assert ring.edits.values == (("edge_attr", ((1.0, 0.0, 0.0, 0.0),)),)
    assert ce.Counterfactual.from_json(ring.to_json()) == ring


def test_new_edges_by_a_function_of_the_user():
    double = lambda g, key: torch.tensor([0.0, 1, 0, 0])  # noqa: E731
    model = Weighted([0.0] * 7, threshold=3.5)
    cf = search(model, chain("CCCC"), chemistry="valence", new_edges=double, features=False, remove_edges=False)
    assert cf.found
    assert "=" in smiles(cf.data)
    assert valid_molecule(cf.data, SCHEMA)
    triple = lambda g, key: torch.tensor([0.0, 0, 1, 0])  # noqa: E731
    none = search(model, chain("CCNN"), chemistry="valence", new_edges=triple, features=False, remove_edges=False)
    assert not none.found  # an atom beside two neighbours has no room for a triple bond to a third
    nothing = lambda g, key: torch.zeros(4)  # noqa: E731
    assert not search(
        model, chain("CCCC"), chemistry="valence", new_edges=nothing, features=False, remove_edges=False
    ).found


def test_an_original_that_is_no_molecule_gets_no_worse():
    # a carbon with five neighbours stays, but nothing may be added to it, and no other atom may follow it
    data = graph("CCCCCCC", [*((0, i, "single") for i in range(1, 6)), (5, 6, "single")])
    base = GraphBatch.from_graphs([data])
    chemistry = Chemistry(base, SCHEMA)
    row, x = torch.zeros(4, dtype=torch.long), base.x.repeat(4, 1, 1)
    adj = base.adj.repeat(4, 1, 1)
    adj[0, 1, 2] = adj[0, 2, 1] = 1  # elsewhere
    adj[1, 0, 6] = adj[1, 6, 0] = 1  # one more on the carbon that has too many
    adj[2, 0, 1] = adj[2, 1, 0] = 0  # mended
    x[3, 0, :2] = torch.tensor([0.0, 1.0])  # nitrogen with five bonds instead
    assert chemistry.legal(row, adj, x, torch.ones(4, dtype=torch.bool)).tolist() == [True, False, True, False]
    assert not chemistry.legal(row, adj, x, torch.zeros(4, dtype=torch.bool)).any()
    cf = search(Weighted([0.0] * 7, threshold=6.5), data, chemistry="valence", features=False)
    assert cf.found
    assert 0 not in {end for pair in cf.edits.added for end in pair}


def test_the_harness_has_the_last_word(monkeypatch):
    """A search that believed an invalid molecule is not believed."""
    from counteredge.engine.search import Search

    legal = Search.legal
    monkeypatch.setattr(Search, "legal", lambda self, s, among=None: legal(self, s, among) if among is None else among)
    monkeypatch.setattr(Chemistry, "open", lambda self, row, adj, x: (adj >= 0, torch.ones_like(x, dtype=torch.bool)))
    model = Weighted([0.0, 0, 0, 1.0, 0, 0, 0], edge=0.0, threshold=0.5)
    neopentane = graph("CCCCC", [(0, i, "single") for i in range(1, 5)])
    cf = search(model, neopentane, chemistry="valence", add_edges=False, remove_edges=False)
    assert not cf.found
    assert "breaks a limit" in cf.reason


class Convolved(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.conv, self.lin = GCNConv(7, 8), torch.nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        return self.lin(global_add_pool(self.conv(x, edge_index).relu(), batch))


def test_the_paper_preset_keeps_it_too():
    explainer = ce.XPlore("paper", alpha=0.5)
    sides = {None: [], "valence": []}
    for seed, data in itertools.product(range(4), (chain("CCCNCC"), NITROBENZENE, chain("CFOCCCO"), BENZENE)):
        for chemistry, answers in sides.items():
            schema = SCHEMA.as_numbers()  # as a run of the paper preset has it
            model = Convolved(seed)
            with torch.no_grad():  # close to the boundary, so that few edits decide
                z = model(data.x, data.edge_index, torch.zeros(len(data.x), dtype=torch.long))[0]
                model.lin.bias -= z - torch.tensor([0.02, 0.0])
            cf = search(model, data, schema, explainer, chemistry=chemistry, gamma=-0.45)
            answers += [valid_molecule(cf.data, schema)] if cf.found and valid_molecule(data, schema) else []
    assert sides["valence"]
    assert all(sides["valence"])
    assert not all(sides[None])


@st.composite
def molecules(draw):
    """Small graphs with all kinds of atoms and bonds, valid or not."""
    n = draw(st.integers(2, 7))
    symbols = draw(st.lists(st.sampled_from(["C", "C", "C", "N", "O", "F", "S"]), min_size=n, max_size=n))
    kinds = st.sampled_from(["single", "single", "single", "double", "aromatic"])
    bonds = {(draw(st.integers(0, i - 1)), i): draw(kinds) for i in range(1, n)}
    for _ in range(draw(st.integers(0, 2))):
        i, j = sorted(draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True)))
        bonds.setdefault((i, j), draw(kinds))
    if draw(st.booleans()) and n >= 5:  # an aromatic ring
        bonds = {(i, i + 1): "aromatic" for i in range(n - 1)} | {(0, n - 1): "aromatic"}
    return graph(symbols, [(i, j, k) for (i, j), k in bonds.items()])


@settings(max_examples=40, deadline=None)
@given(molecules(), st.lists(st.floats(-1, 1, width=32), min_size=7, max_size=7), st.floats(-1, 1, width=32))
def test_every_answer_is_a_molecule_if_the_original_was(data, weights, edge):
    model = Weighted(weights, edge)
    shift = model(data.x, data.edge_index, torch.zeros(len(data.x), dtype=torch.long))[0, 1].item()
    model.threshold = shift + 0.3
    cf = search(model, data, chemistry="valence", explainer=ce.XPlore(depth=3, restarts=1))
    if cf.found and valid_molecule(data, SCHEMA):
        assert valid_molecule(cf.data, SCHEMA)
    if cf.found:
        free = search(model, data, explainer=ce.XPlore(depth=3, restarts=1), new_edges=new_bonds(SCHEMA, "mode"))
        assert free.found
        assert len(free.edits) <= len(cf.edits)


@settings(max_examples=150, deadline=None)
@given(st.lists(molecules(), min_size=1, max_size=3), st.integers(0, 10_000), st.booleans())
def test_the_cheap_look_never_refuses_what_rdkit_takes(graphs, seed, directed):
    base = GraphBatch.from_graphs(graphs, directed=directed, new_edges=new_bonds(SCHEMA, "mode"))
    chemistry = Chemistry(base, SCHEMA)
    generator = torch.Generator().manual_seed(seed)
    row = torch.arange(base.size)
    change = (torch.rand(base.adj.shape, generator=generator) < 0.15).triu(1)
    change = (change | change.transpose(1, 2)) & base.mask[:, :, None] & base.mask[:, None, :]
    adj = torch.where(change, 1 - base.adj, base.adj)
    element = torch.randint(len(ELEMENTS), base.x.shape[:2], generator=generator)
    swap = (torch.rand(base.x.shape[:2], generator=generator) < 0.15) & base.mask
    x = torch.where(swap[..., None], torch.nn.functional.one_hot(element, len(ELEMENTS)).to(base.x.dtype), base.x)
    cheap = chemistry._plausible(row, adj, x).tolist()
    exact = [not chemistry._violations(r, adj[r], x[r]) for r in row.tolist()]
    assert all(c for c, e in zip(cheap, exact, strict=True) if e)
    # the batch and the plain graph are judged alike
    for r, g in enumerate(graphs):
        assert (not chemistry._violations(r, base.adj[r], base.x[r])) == valid_molecule(g, SCHEMA)


# -- what cannot be meant --------------------------------------------------------------------------------------------


def test_atoms_without_names_are_refused():
    model = Weighted([1.0] * 7, threshold=2.5)
    for schema in (ce.FeatureSchema.onehot(["a", "b", "c", "d", "e", "f", "g"]), None):
        with pytest.raises(ce.InputError, match=r"no one-hot group.*named by element.*FeatureSchema\.onehot"):
            search(model, ETHANOL, schema, chemistry="valence")


def test_labels_that_are_atomic_numbers_are_named_on_request():
    schema = ce.FeatureSchema.onehot(["label=6", "label=8", "other"])
    with pytest.raises(ce.InputError, match="elements_by_number"):
        valid_molecule(Data(x=torch.eye(3), edge_index=torch.zeros(2, 0, dtype=torch.long)), schema)
    named = elements_by_number(replace(schema, edge_names=BONDS))
    assert named.names == ("C", "O", "other")
    assert named.edge_names == BONDS
    data = graph("CCO", [(0, 1, "single"), (1, 2, "single")], elements=("C", "O", "?"))
    assert smiles(data, named) == "CCO"
    data.x[0] = torch.tensor([0.0, 0.0, 1.0])  # an atom of no known element is none that could be judged
    assert not valid_molecule(data, named)


def test_bond_types_without_names_are_refused():
    with pytest.raises(ce.InputError, match=r"edge_attr of shape \(4, 4\).*edge_names=\('single'"):
        search(Weighted([1.0] * 7, threshold=2.5), ETHANOL, replace(SCHEMA, edge_names=()), chemistry="valence")
    mixed = ETHANOL.clone()
    mixed.edge_attr = torch.full((4, 4), 0.25)
    with pytest.raises(ce.InputError, match="not exactly one of: single, double"):
        valid_molecule(mixed, SCHEMA)


@pytest.mark.parametrize("policy", ["zero", "mean"])
def test_new_edges_that_are_no_bonds_are_refused(policy):
    with pytest.raises(ce.InputError, match=f"new_edges='{policy}' gives a new edge no bond type"):
        search(Weighted([1.0] * 7, threshold=2.5), ETHANOL, chemistry="valence", new_edges=policy)


def test_names_of_chemistries():
    with pytest.raises(ce.InputError, match="chemistry='full' is unknown; use 'valence'"):
        ce.EditSpace(chemistry="full")


def test_without_rdkit_it_says_what_to_install(monkeypatch):
    caps.cache_clear()
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ce.CapabilityError, match=r"pip install 'counteredge\[mol\]'"):
        search(Weighted([1.0] * 7, threshold=2.5), ETHANOL, chemistry="valence")
    assert search(Weighted([1.0] * 7, threshold=2.5), ETHANOL) is not None  # nothing else needs it


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "valid"), [("MUTAG", 179), ("BZR", 405), ("COX2", 467), ("AIDS", 1985), ("BBBP", 2039)]
)
def test_how_many_originals_are_molecules(name, valid):
    from counteredge.datasets import load

    data = load(name)
    schema = elements_by_number(data.schema)
    assert sum(valid_molecule(g, schema) for g in data) == valid
