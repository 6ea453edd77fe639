"""MEG: every answer is a molecule a few chemical steps away, found by an agent or by enumeration."""

import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

import counteredge as ce
from counteredge import testing
from counteredge.chemistry import molecule, valid_molecule
from counteredge.chemistry.successors import successors
from counteredge.data import is_directed
from counteredge.decision import Decision
from counteredge.descriptors import append_descriptors
from counteredge.explainers.meg import MEG, _goals
from counteredge.explainers.meg_agent import Agent, AgentOptions
from counteredge.explainers.meg_molecules import Molecules, tanimoto
from counteredge.testing import ExplainerContract, sample_model

Chem = pytest.importorskip("rdkit.Chem")

BONDS = ("aromatic", "single", "double", "triple")
ELEMENTS = ("C", "N", "O")
PLAIN = replace(ce.FeatureSchema.onehot(ELEMENTS), edge_names=BONDS)
SCHEMA = replace(
    PLAIN,
    columns=(
        *PLAIN.columns,
        ce.Column("binary", name="flag"),
        ce.Column("integer", lo=0, hi=5, name="hydrogens"),
        ce.Column("binary", name="aromatic"),
    ),
)
SAMPLES = ("C=CCN", "CCNC", "Oc1ccccc1", "NCCN", "CCCN", "CC(=O)O")


def graph(smiles, *, told=False, **more):
    """A molecule as a graph, with or without columns that say what the bonds say."""
    mol = Chem.MolFromSmiles(smiles)
    rows = []
    for atom in mol.GetAtoms():
        row = [float(atom.GetSymbol() == e) for e in ELEMENTS]
        told_of = [float(atom.GetIdx() % 2), float(atom.GetTotalNumHs()), float(atom.GetIsAromatic())]
        rows.append(row + told_of if told else row)
    ends, kinds = [], []
    for b in mol.GetBonds():
        i, j = b.GetBeginAtomIdx(), b.GetEndAtomIdx()
        ends += [(i, j), (j, i)]
        kinds += [BONDS.index(b.GetBondType().name.lower())] * 2
    return Data(
        x=torch.tensor(rows),
        edge_index=torch.tensor(ends, dtype=torch.long).reshape(-1, 2).t().contiguous(),
        edge_attr=torch.eye(len(BONDS))[torch.tensor(kinds, dtype=torch.long)],
        **more,
    )


def smiles_of(data, schema=PLAIN):
    return Chem.MolToSmiles(molecule(data, schema))


def sample_molecules(count=6, *, directed=False, seed=0):
    """What takes the place of the contract's own graphs; some have a self-loop there, some here."""
    out = []
    for k in range(count):
        g = graph(SAMPLES[(k + seed) % len(SAMPLES)], told=True, y=torch.tensor([k % 2]), tag=f"graph {k}")
        if k % 3 == 2:
            g.edge_index = torch.cat([torch.zeros(2, 1, dtype=torch.long), g.edge_index], 1)
            g.edge_attr = torch.cat([torch.eye(len(BONDS))[1:2], g.edge_attr])
        out.append(g)
    return out


def has_oxygen(batch):
    return [int(g.x[:, 2].any()) for g in batch.to_data_list()]


def size_and_oxygen(batch):
    """Scores that change with nearly every step."""
    graphs = batch.to_data_list()
    angle = [g.num_nodes + 2.0 * float(g.x[:, 2].sum()) + 0.7 * float(g.edge_attr[:, 2].sum()) for g in graphs]
    angle = torch.tensor(angle)
    return torch.stack([angle.cos(), (angle + 2).cos()], 1)


def explain(smiles, model=has_oxygen, mode="improved", *, schema=PLAIN, space=None, **options):
    asked = {k: options.pop(k) for k in ("budget", "desired", "task", "k") if k in options}
    given = [graph(s) if isinstance(s, str) else s for s in ([smiles] if isinstance(smiles, str | Data) else smiles)]
    space = space or ce.EditSpace(schema=schema)
    cfs = MEG(mode, **options).explain(model, given, edits=space, progress=False, **asked)
    return cfs[0] if isinstance(smiles, str | Data) else cfs


# -- the contract -----------------------------------------------------------------------------------------------------


class MoleculeContract(ExplainerContract):
    """The gates on small molecules in place of the sample graphs, which are none."""

    __test__ = False
    least_found = 0.5

    @pytest.fixture(autouse=True)
    def molecules(self, monkeypatch):
        monkeypatch.setattr(testing, "sample_graphs", sample_molecules)
        monkeypatch.setattr(testing, "sample_schema", lambda: SCHEMA)

    def run(self, graphs=None, model=None, *, seed=0, **kw):
        kw.setdefault("edits", ce.EditSpace(schema=SCHEMA))
        chosen = sample_molecules() if graphs is None else graphs
        return self.make(seed=seed).explain(model or sample_model(), chosen, progress=False, **kw)

    def test_r3_constraints_hold(self):
        """R3 for answers whose nodes come and go: rows are compared by the node that they belong to."""
        frozen = {"frozen_nodes": [0], "frozen_edges": [(1, 2), (2, 3)], "frozen_features": [3]}
        found = 0
        for cf in self.run(edits=ce.EditSpace(schema=SCHEMA, **frozen)):
            if not cf.found:
                continue
            found += 1
            old, new, edits = cf.original, cf.data, cf.edits
            kept = [v for v in range(old.num_nodes) if v not in edits.removed_nodes]
            assert kept[0] == 0
            assert torch.equal(old.x[0], new.x[0])
            assert torch.equal(old.x[kept, 3], new.x[: len(kept), 3])
            touched = [*edits.added, *edits.removed, *(e.pair for e in edits.attributes)]
            assert not any(0 in p for p in touched)
            assert not {frozenset(p) for p in touched} & {frozenset((1, 2)), frozenset((2, 3))}
            assert ((new.x[:, :3] == 0) | (new.x[:, :3] == 1)).all()
            assert (new.x[:, :3].sum(1) == 1).all()
            assert ((new.x[:, 4] >= 0) & (new.x[:, 4] <= 5) & (new.x[:, 4] == new.x[:, 4].round())).all()
            assert ((new.x[:, 5] == 0) | (new.x[:, 5] == 1)).all()
        assert found
        for name, attribute in (("edges", "feature_count"), ("features", "edge_count")):
            for cf in self.run(edits=replace(ce.EditSpace.of(name), schema=SCHEMA)):
                assert getattr(cf.edits, attribute) == 0

    def test_r4_structure_is_kept(self):
        """R4 for answers whose nodes come and go: what is not edited is as it was."""
        for cf in self.run():
            if not cf.found:
                continue
            old, new, edits = cf.original, cf.data, cf.edits
            assert not edits.directed
            assert not is_directed(new)
            assert new.num_nodes == old.num_nodes + len(edits.new_nodes) - len(edits.removed_nodes)
            assert (new.x.dtype, new.edge_index.dtype) == (old.x.dtype, old.edge_index.dtype)
            assert new.tag == old.tag
            names = [v for v in range(old.num_nodes + len(edits.new_nodes)) if v not in edits.removed_nodes]
            before = {tuple(p): r for p, r in zip(old.edge_index.t().tolist(), old.edge_attr.tolist(), strict=True)}
            after = {
                (names[i], names[j]): r
                for (i, j), r in zip(new.edge_index.t().tolist(), new.edge_attr.tolist(), strict=True)
            }
            assert len(after) == new.num_edges
            loops = [{p for p in each if p[0] == p[1] and p[0] not in edits.removed_nodes} for each in (before, after)]
            assert loops[0] == loops[1]
            changed = {tuple(sorted(p)) for p in before.keys() ^ after.keys() if p[0] != p[1]}
            assert changed == {*edits.added, *edits.removed}
            other = {tuple(sorted(p)) for p in before.keys() & after.keys() if before[p] != after[p]}
            assert other == {e.pair for e in edits.attributes}
            touched = {(e.node, k) for e in edits.features for k in e.columns}
            for place, v in enumerate(names):
                if v < old.num_nodes:
                    differ = (old.x[v] != new.x[place]).nonzero().flatten().tolist()
                    assert {(v, k) for k in differ} == {p for p in touched if p[0] == v}
            assert valid_molecule(new, SCHEMA)


class TestPaper(MoleculeContract):
    __test__ = True

    def make(self, **options):
        return MEG(episodes=50, **options)

    def test_r8_more_budget_is_never_worse(self):
        """R8 in the measure of this mode: an answer stays and is not less like its original."""
        for name, values in (("calls", (2, 20, 60, 200, None)), ("edits", (1, 2, 4, None))):
            best = {}
            for value in values:
                for cf in self.run(budget=ce.Budget(**{name: value})):
                    if name == "calls" and value is not None:
                        assert cf.calls.forward <= value
                    if name == "edits" and value is not None and cf.found:
                        assert len(cf.edits) <= value
                    if not cf.found:
                        assert cf.index not in best
                        continue
                    alike = likeness(cf)
                    assert alike >= best.get(cf.index, 0) - 1e-3
                    best[cf.index] = alike


class TestImproved(MoleculeContract):
    __test__ = True

    def make(self, **options):
        return MEG("improved", steps=2, beam=2, **options)


def likeness(cf, model=None):
    """The similarity by other means: the model's layers one by one, RDKit's own Tanimoto."""
    from rdkit import DataStructs
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    make = GetMorganGenerator(radius=2, fpSize=1024)
    a, b = (make.GetFingerprint(molecule(g, cf.schema)) for g in (cf.original, cf.data))
    alike = DataStructs.TanimotoSimilarity(a, b)
    model = sample_model() if model is None else model
    h = []
    for g in (cf.original, cf.data):
        x = (g.x - model.x_mean) / model.x_std
        for conv in model.convs:
            x = conv(x, g.edge_index).relu()
        h.append(x.mean(0))
    return (alike + float(torch.cosine_similarity(*h, dim=0).detach())) / 2


# -- graph to molecule and back ---------------------------------------------------------------------------------------


def around(smiles, space=None, *, schema=PLAIN, told=False):
    """The molecules around one graph."""
    kept = []

    class Peek(MEG):
        def _search(self, search):
            kept.append(Molecules(search, 0, ring_sizes=(5, 6), between_rings=True))

    given = smiles if isinstance(smiles, Data) else graph(smiles, told=told)
    Peek().explain(has_oxygen, given, edits=space or ce.EditSpace(schema=schema))
    return kept[0]


NEUTRAL = ("C", "CCO", "CC(=O)O", "c1ccccc1", "CC#N", "c1cc[nH]c1", "CC(=O)Oc1ccccc1C(=O)O", "C1=CCCCC1", "O=C1CCCN1")


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("smiles", NEUTRAL)
def test_all_successors_and_no_others_become_graphs(smiles, told):
    schema = SCHEMA if told else PLAIN
    world = around(smiles, schema=schema, told=told)
    mol = Chem.MolFromSmiles(smiles)
    expected = {s.smiles for s in successors(mol, {a.GetSymbol() for a in mol.GetAtoms()})}
    found = world.successors(world.start)
    assert {c.smiles for c in found} == expected - {Chem.CanonSmiles(smiles)}
    assert len({c.smiles for c in found}) == len(found)
    for c in found:
        assert smiles_of(c.edits.apply(world.graph), schema) == c.smiles
        assert len(c.edits.describe(schema)) == len(c.edits) > 0
        if told:  # columns say what a fresh graph of that molecule says
            fresh = [Chem.MolFromSmiles(c.smiles), molecule(c.data, schema)]
            said = [sorted((a.GetSymbol(), a.GetTotalNumHs(), a.GetIsAromatic()) for a in m.GetAtoms()) for m in fresh]
            columns = [(ELEMENTS[int(r[:3].argmax())], int(r[4]), bool(r[5])) for r in c.data.x]
            assert said[0] == said[1] == sorted(columns)


def test_two_steps_are_edits_of_the_original():
    world = around("CCO")
    first = next(c for c in world.successors(world.start) if c.smiles == "CCCO")
    second = {c.smiles: c for c in world.successors(first)}
    assert "CCO" not in second  # the way back
    ring = next(c for s, c in second.items() if s == "CCCCO")
    assert len(ring.edits.new_nodes) == 2
    assert smiles_of(ring.edits.apply(world.graph)) == "CCCCO"
    gone = next(c for s, c in second.items() if s == "CCC")
    assert len(gone.edits) <= 4


def test_nitro_groups_without_charges_lose_an_oxygen():
    """The graph knows no charges: without one oxygen it is a nitroso group, whatever charges the bond left behind."""
    world = around(graph_of_nitromethane())
    found = {c.smiles: c for c in world.successors(world.start)}
    assert world.start.smiles == "C[N+](=O)[O-]"
    assert found["CN=O"].edits == ce.EditSet(removed=((1, 3),), removed_nodes=(3,))


def graph_of_nitromethane():
    ends = [(0, 1, 1), (1, 2, 2), (1, 3, 1)]
    arcs = [a for i, j, _ in ends for a in ((i, j), (j, i))]
    kinds = torch.tensor([k for *_, k in ends]).repeat_interleave(2)
    return Data(
        x=torch.eye(3)[[0, 1, 2, 2]], edge_index=torch.tensor(arcs).t().contiguous(), edge_attr=torch.eye(4)[kinds]
    )


def test_without_bond_types_all_bonds_are_single():
    g = graph("CCO")
    del g.edge_attr
    world = around(g, schema=ce.FeatureSchema.onehot(ELEMENTS))
    found = {c.smiles for c in world.successors(world.start)}
    assert found == {"CCCO", "CCOO", "CC(C)O", "CC(O)O", "CCOC", "OCCO", "CO", "CC"}


def test_without_an_aromatic_type_bonds_are_those_of_a_kekule_structure():
    names = ("single", "double", "triple")
    schema = replace(PLAIN, edge_names=names)
    g = graph("C1=CCCC=C1")
    g.edge_attr = g.edge_attr[:, 1:]
    world = around(g, schema=schema)
    found = {c.smiles: c for c in world.successors(world.start)}
    assert found["c1ccccc1"].edits.attributes
    for c in found.values():
        assert smiles_of(c.data, schema) == c.smiles


@pytest.mark.parametrize("structural", ["refreshed", "frozen"])
def test_new_nodes_get_the_descriptors_of_the_edited_graph(structural):
    (g,) = append_descriptors([graph("CCO")], ["degree"])
    schema = replace(PLAIN, columns=(*PLAIN.columns, ce.Column("structural", name="degree")))
    world = around(g, ce.EditSpace(schema=schema, structural=structural))
    for c in world.successors(world.start):
        degree = torch.bincount(c.data.edge_index[0], minlength=c.data.num_nodes).float()
        if structural == "refreshed":
            assert torch.equal(c.data.x[:, 3], degree)
        elif c.edits.new_nodes:
            assert torch.equal(c.data.x[:3, 3], g.x[:, 3])
            assert c.data.x[3, 3] == 1


def test_other_columns_are_as_at_the_neighbour():
    world = around("CCO", schema=SCHEMA, told=True)
    for c in world.successors(world.start):
        for row in c.edits.new_nodes:
            ((i, _),) = c.edits.added
            assert row[3] == world.graph.x[i, 3]


# -- the agent and the enumeration ------------------------------------------------------------------------------------


class Sums(nn.Module):
    """A small model with a head that sees one row a graph."""

    def __init__(self, seed=9):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.mix = nn.Parameter(torch.randn(3, 4, generator=generator))
        self.head = nn.Linear(4, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.randn(2, 4, generator=generator) * 2)
            self.head.bias.copy_(torch.randn(2, generator=generator) * 0.1)

    def embed(self, x, edge_index, batch):
        around = x.new_zeros(x.shape).index_add(0, edge_index[1], x[edge_index[0]])
        size = int(batch.max()) + 1
        return ((x + around) @ self.mix).sin().new_zeros(size, 4).index_add(0, batch, ((x + around) @ self.mix).sin())

    def forward(self, x, edge_index, batch):
        return self.head(self.embed(x, edge_index, batch))


@pytest.mark.parametrize("embeddings", [True, False])
def test_one_step_of_the_agent_finds_what_enumeration_finds(embeddings):
    model = Sums().eval()
    found = 0
    for smiles in ("CCCO", "CC(=O)Oc1ccccc1C(=O)O", "Oc1ccccc1", "NC1CCCC1", "OCC#N", "CCN"):
        cf = explain(smiles, model, "paper", embeddings=embeddings)
        world = around(smiles)

        def vector(g):
            return model.embed(g.x, g.edge_index, torch.zeros(g.num_nodes, dtype=torch.long))[0].detach()

        best, reach = None, world.successors(world.start)
        y0 = int(model.head(vector(world.graph)).argmax())
        for c in reach:
            if int(model.head(vector(c.data)).argmax()) == y0:
                continue
            alike = tanimoto(c.fingerprint, world.start.fingerprint)
            if embeddings:
                alike = (alike + float(torch.cosine_similarity(vector(c.data), vector(world.graph), dim=0))) / 2
            best = max(best, alike) if best is not None else alike
        assert cf.found == (best is not None)
        assert cf.calls.forward == 1 + embeddings + len(reach)  # each molecule once
        if cf.found:
            found += 1
            mine = next(c for c in reach if c.edits == cf.edits)
            alike = tanimoto(mine.fingerprint, world.start.fingerprint)
            if embeddings:
                alike = (alike + float(torch.cosine_similarity(vector(mine.data), vector(world.graph), dim=0))) / 2
            assert alike == pytest.approx(best, abs=2e-4)
    assert found >= 3


def test_the_fewest_edits_of_a_level():
    cf = explain("CCC(=O)O", size_and_oxygen, steps=1)
    world = around("CCC(=O)O")
    every = world.successors(world.start)
    z = size_and_oxygen(torch_batch([world.graph, *[c.data for c in every]]))
    flips = (z[1:].argmax(1) != z[0].argmax()).tolist()
    assert cf.found == any(flips)
    assert len(cf.edits) == min(len(c.edits) for c, f in zip(every, flips, strict=True) if f)
    assert cf.calls.forward == 1 + len(every)


def torch_batch(graphs):
    from torch_geometric.data import Batch

    return Batch.from_data_list(graphs)


class Listening(MEG):
    """Notes the molecules of each batch that the model is asked about."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.asked = []

    def _predict(self, search, asked):
        self.asked.append([(w.row, c.smiles) for w, c in asked])
        return super()._predict(search, asked)


@pytest.mark.parametrize("mode", ["paper", "improved"])
def test_every_molecule_once_and_a_level_of_all_graphs_at_once(mode):
    options = {"beam": 3} if mode == "improved" else {"episodes": 40}
    smiles = ("CCO", "CCN", "CCCO")
    method = Listening(mode, steps=2, **options)
    space = ce.EditSpace(schema=PLAIN)
    cfs = method.explain(Constant(), [graph(s) for s in smiles], edits=space)
    assert not any(c.found for c in cfs)
    every = [pair for batch in method.asked for pair in batch]
    assert len(every) == len(set(every)) == sum(c.calls.forward - 1 for c in cfs)
    if mode == "improved":
        assert len(method.asked) == 2  # two levels
        assert sorted(method.asked[0]) == sorted(
            (row, c.smiles) for row, s in enumerate(smiles) for w in [around(s)] for c in w.successors(w.start)
        )
    for s, together in zip(smiles, cfs, strict=True):
        alone = Listening(mode, steps=2, **options).explain(Constant(), graph(s), edits=space)
        assert alone.calls == together.calls


def test_deeper_where_one_step_is_not_enough():
    def three_oxygens(batch):
        return [int(g.x[:, 2].sum() >= 3) for g in batch.to_data_list()]

    assert not explain("CCO", three_oxygens, steps=1).found
    cf = explain("CCO", three_oxygens)
    assert cf.found
    assert cf.stage == "level-2"
    assert len(cf.edits.new_nodes) == 2
    agent = explain("CCO", three_oxygens, "paper", steps=2, episodes=400)
    assert agent.found
    assert agent.stage == "agent"
    assert agent.edits.node_count == 2


def test_the_agent_draws_by_seed_and_graph():
    few = {"mode": "paper", "episodes": 12}
    one = explain("CCC(=O)O", size_and_oxygen, **few)
    together = explain(["CCO", "CCC(=O)O"], size_and_oxygen, **few)
    assert together[1].edits == one.edits
    assert together[1].calls == one.calls
    calls = {explain("CCC(=O)O", size_and_oxygen, seed=s, **few).calls.forward for s in range(6)}
    assert len(calls) > 1


def test_agent_learns_which_of_two_is_better():
    agent = Agent(4, AgentOptions(lr=1e-2, decay=0.98), seed=0)
    actions = torch.eye(4)[:2]
    for _ in range(300):
        k = agent.choose(actions)
        agent.learn(actions[k], float(k), None)
        agent.end_episode()
    agent.epsilon = 0.0
    assert agent.choose(actions) == 1
    value = agent.network(actions)[:, 0].detach()
    assert value.tolist() == pytest.approx([0, 1], abs=0.1)
    following = Agent(4, AgentOptions(lr=1e-2, gamma=0.5, polyak=0.9), seed=0)
    for _ in range(400):
        following.learn(actions[0], 0.0, actions[1:])
        following.learn(actions[1], 1.0, None)
    value = following.network(actions)[:, 0].detach()
    assert value.tolist() == pytest.approx([0.5, 1], abs=0.1)  # half of what the next step is worth


def test_agents_leave_the_global_random_state_alone():
    state = torch.get_rng_state()
    Agent(1025, AgentOptions(), seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    a, b = (Agent(8, AgentOptions(), seed=s).network[0].weight for s in (1, 1))
    assert torch.equal(a, b)
    assert 0 < float(a.detach().abs().max()) <= 8**-0.5


# -- limits -----------------------------------------------------------------------------------------------------------


def every(space, smiles="CCCO", **more):
    world = around(smiles, space, **more)
    return world.successors(world.start), world


def spaced(**options):
    return ce.EditSpace(schema=PLAIN, **options)


@pytest.mark.parametrize(
    ("space", "holds"),
    [
        (spaced(add_edges=False), lambda e: not e.added and not e.new_nodes),
        (spaced(remove_edges=False), lambda e: not e.removed and not e.removed_nodes),
        (spaced(nodes=False), lambda e: not e.node_count),
        (spaced(frozen_nodes=[0]), lambda e: 0 not in {v for p in (*e.added, *e.removed) for v in p}),
        (
            spaced(frozen_edges=[(1, 2)]),
            lambda e: (1, 2) not in {*e.removed, *(a.pair for a in e.attributes)},
        ),
        (spaced(allowed_pairs=[(0, 1)]), lambda e: not e.node_count and {*e.removed} <= {(0, 1)}),
        (spaced(max_degree=2), lambda e: not [p for p in e.added if {1, 2} & {*p}]),
    ],
)
def test_limits_of_the_edit_space(space, holds):
    free, _ = every(spaced())
    assert any(not holds(c.edits) for c in free)
    kept, world = every(space)
    assert all(holds(c.edits) for c in kept)
    assert {c.smiles for c in kept} == {
        c.smiles for c in free if any(holds(d.edits) and d.smiles == c.smiles for d in kept)
    }
    assert kept
    assert world.refused or not space.add_edges or not space.remove_edges


def test_columns_that_follow_the_bonds_are_features():
    space = ce.EditSpace(schema=SCHEMA, features=False)
    kept, world = every(space, graph("CC(=O)O", told=True))
    assert not any(c.edits.feature_count for c in kept)
    assert any("'hydrogens' follows the bonds" in why for why in world.refused)
    few = replace(
        SCHEMA, columns=(*SCHEMA.columns[:4], ce.Column("integer", hi=0, name="hydrogens"), SCHEMA.columns[5])
    )
    kept, world = every(ce.EditSpace(schema=few), graph("CC(=O)O", told=True))
    assert any("'hydrogens' would leave its bounds" in why for why in world.refused)
    assert all(e.new == (0.0,) for c in kept for e in c.edits.features)


@pytest.mark.parametrize("mode", ["paper", "improved"])
def test_budgets(mode):
    cf = explain("CCC", mode=mode, budget=ce.Budget(edits=1))
    assert not cf.found
    cf = explain("CCCO", size_and_oxygen, mode=mode, budget=ce.Budget(calls=5))
    assert cf.calls.forward <= 5
    cf = explain("CCCO", Constant(), mode=mode, budget=ce.Budget(calls=5))
    assert "budget of 5 oracle calls" in cf.reason
    for name, most in (("edits", 2), ("edges", 2), ("features", 0 + 1)):
        cf = explain("CC=CO", size_and_oxygen, mode=mode, budget=ce.Budget(**{name: most}))
        e = cf.edits
        assert {"edits": len(e), "edges": e.ged, "features": e.attribute_count + e.feature_count}[name] <= most


class Constant(nn.Module):
    def forward(self, x, edge_index, batch):
        return torch.tensor([[1.0, 0.0]]).expand(int(batch.max()) + 1, 2)


def test_why_nothing_was_found():
    pentavalent = graph("CC(C)(C)C")
    pentavalent.x = torch.cat([pentavalent.x, pentavalent.x[:1]])
    pentavalent.edge_index = torch.cat([pentavalent.edge_index, torch.tensor([[1, 5], [5, 1]])], 1)
    pentavalent.edge_attr = torch.cat([pentavalent.edge_attr, pentavalent.edge_attr[:2]])
    given = [pentavalent, graph("CCCCCO")]
    cfs = MEG("improved", steps=1).explain(Constant(), given, edits=ce.EditSpace(schema=PLAIN))
    assert not any(c.found for c in cfs)
    assert "is no molecule that RDKit sanitises" in cfs[0].reason
    assert cfs[1].reason.startswith("none of ")
    space = spaced(nodes=False, frozen_edges=[(0, 1), (1, 2)])
    cf = MEG("improved").explain(Constant(), graph("CCO"), edits=space)
    assert "refused: " in cf.reason


def test_shrinking_keeps_to_molecules():
    """Three steps bring three atoms where one is enough; what is left is a molecule, and the size before is told."""

    def many(batch):
        return [int(len(g.x) >= 6) for g in batch.to_data_list()]

    given = graph("CCCCC")
    space = ce.EditSpace(schema=PLAIN)
    raw = MEG("paper", steps=3, episodes=40).explain(many, given, edits=space)
    cf = MEG("paper", steps=3, episodes=40, postprocess="shrink").explain(many, given, edits=space)
    assert raw.found
    assert raw.raw is None
    assert sum(cf.raw) == len(raw.edits)
    assert len(cf.edits) <= len(raw.edits)
    assert ce.chemistry.valid_molecule(cf.data, PLAIN)
    assert cf.minimal


# -- what is refused --------------------------------------------------------------------------------------------------


def test_graphs_that_are_no_molecules_by_their_schema():
    with pytest.raises(ce.InputError, match="columns named by element"):
        MEG().explain(has_oxygen, graph("CCO"))
    with pytest.raises(ce.InputError, match="have no direction"):
        explain("CCO", space=ce.EditSpace(schema=PLAIN, directed=True))
    with pytest.raises(ce.InputError, match="edge_attr"):
        explain("CCO", schema=ce.FeatureSchema.onehot(ELEMENTS))
    with pytest.raises(ce.CapabilityError, match="not nodes"):
        MEG().explain(NodeModel(), graph("CCO"), node=0, edits=ce.EditSpace(schema=PLAIN))


class NodeModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x, edge_index):
        return self.lin(x)


def test_without_rdkit(monkeypatch):
    from counteredge.chemistry import judge

    judge.caps.cache_clear()
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(ce.CapabilityError, match=r"counteredge\[mol\]"):
        MEG().explain(Constant(), GRAPH, edits=ce.EditSpace(schema=PLAIN))


GRAPH = graph("CCO")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 0}, "steps must be a whole number"),
        ({"episodes": True}, "episodes must be a whole number"),
        ({"beam": 3}, "beam= belongs to mode='improved'"),
        ({"mode": "improved", "episodes": 9}, "episodes= belongs to mode='paper'"),
        ({"mode": "improved", "agent": AgentOptions()}, "agent= belongs to mode='paper'"),
        ({"weight": 2}, "weight must be a number >= 0 and <= 1"),
        ({"discount": 0}, "discount must be a number above 0"),
        ({"embeddings": 1}, "embeddings must be True or False"),
        ({"between_rings": "no"}, "between_rings must be True or False"),
        ({"ring_sizes": 6}, "ring_sizes must be whole numbers"),
        ({"ring_sizes": (5, 2)}, "ring_sizes: each must be a whole number >= 3, got 2"),
        ({"agent": {"lr": 1}}, "agent must be AgentOptions"),
        ({"mode": "reference"}, "mode of MEG 'reference'"),
    ],
)
def test_options_that_do_not_work(options, said):
    with pytest.raises(ce.InputError, match=said):
        MEG(**options)


@pytest.mark.parametrize(
    ("option", "value"),
    [("lr", 0), ("gamma", 1.5), ("polyak", -1), ("memory", 0), ("epsilon", float("nan")), ("decay", "slow")],
)
def test_options_of_the_agent_that_do_not_work(option, value):
    with pytest.raises(ce.InputError, match=f"AgentOptions: {option} must be"):
        AgentOptions(**{option: value})


def test_parameters_are_those_of_the_mode():
    assert MEG().parameters()["episodes"] == 5000
    assert MEG().parameters()["lr"] == 1e-4
    assert "beam" not in MEG().parameters()
    assert MEG("improved").parameters()["steps"] == 3
    assert "episodes" not in MEG("improved").parameters()


# -- other tasks ------------------------------------------------------------------------------------------------------


def test_wishes():
    z, y0 = torch.tensor([[2.0, 1.0, 0.0]]).double(), torch.tensor([0])
    p = z.softmax(1)[0]
    assert float(_goals(Decision("multiclass"), z, y0)) == pytest.approx(float(1 - p[0]))
    assert float(_goals(Decision("multiclass", classes=(2,)), z, y0)) == pytest.approx(float(p[2]))
    one = torch.tensor([[1.5]]).double()
    assert float(_goals(Decision("binary"), one, torch.tensor([1]))) == pytest.approx(1 - float(one.sigmoid()))
    wished = Decision("regression", interval=(3.0, 4.0))
    near, far = (float(_goals(wished, torch.tensor([[v]]).double(), y0)) for v in (2.5, 0.0))
    assert 0 < far < near < 0.5


def test_a_range_of_a_regression():
    def weight(batch):
        return torch.tensor([[float(g.num_nodes)] for g in batch.to_data_list()])

    cf = explain("CCO", weight, desired=(4.5, 6.0), task="regression")
    assert cf.found
    assert cf.after.label == 5
    assert len(cf.edits.new_nodes) == 2


def test_a_wished_class():
    cf = explain("CCO", size_and_oxygen, desired=1)
    assert cf.after.label == 1 if cf.found else cf.reason


def test_several_answers_are_one():
    (answers,) = explain(["CCO"], k=3)
    assert len(answers) == 1
    assert answers[0].found
