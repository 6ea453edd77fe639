"""MEG: molecules one or a few chemical steps away, explored by an agent or all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from counteredge.chemistry.reading import Columns, valid_molecule
from counteredge.chemistry.successors import RING_SIZES
from counteredge.decision import Decision
from counteredge.edits import EditSet
from counteredge.engine.draws import generator_of
from counteredge.engine.search import Budget, Search
from counteredge.errors import CapabilityError, InputError
from counteredge.explainers.base import Explainer
from counteredge.explainers.meg_agent import Agent, AgentOptions
from counteredge.explainers.meg_molecules import BITS, Candidate, Molecules, tanimoto
from counteredge.explainers.options import flag, number, whole
from counteredge.nodes import NodeOracle
from counteredge.oracle import Oracle
from counteredge.schema import FeatureSchema
from counteredge.space import EditSpace

__all__ = ["MEG"]

GRID = 1e-4  # goals and similarities are compared on it: batches of another shape round differently
EPISODES, BEAM = 5000, 8
STEPS = {"paper": 1, "improved": 3}


@dataclass(frozen=True)
class _Seen:
    """What the model said of a molecule: whether it is a counterfactual, how nearly, and how alike it is."""

    candidate: Candidate
    flips: bool
    goal: float
    similarity: float


@dataclass
class _World:
    """One graph with all that is known of it."""

    row: int
    molecules: Molecules
    start: Candidate
    vector: Tensor | None = None
    seen: dict[str, _Seen] = field(default_factory=dict)


class MEG(Explainer):
    r"""Molecules reached by chemical steps: an atom more, a bond more or less (Numeroso and Bacciu, IJCNN 2021).

    A step is one of :func:`counteredge.chemistry.successors.successors`, so that every answer is a molecule; new atoms
    are of the elements in the molecule. A molecule is worth

    .. math:: r = 0.9 \, ((1 - w) \, p(G') + w \, s(G', G)), \quad
        s = \tfrac12 \cos(h_{G'}, h_G) + \tfrac12 T(G', G)

    with ``p`` the probability of what is wished (of any class but the present one), ``h`` the input of the model's last
    linear layer and ``T`` Tanimoto's similarity of Morgan fingerprints; ``s = T`` for models (and functions) where no
    such layer sees one row a graph. Each molecule is evaluated once, by the untouched model; ``h`` of the original
    takes one call more. The agent learns within ``explain``: its calls are among those of the answer.

    Graphs need columns of ``x`` named by element (:mod:`counteredge.chemistry`), and bond types in
    ``FeatureSchema.edge_names`` if bonds are to change their order. Columns named ``charge``, ``hydrogens`` and
    ``aromatic`` follow the bonds; they are edits of their own, so an edit space without features leaves no step where
    a graph has such columns. Limits of the edit space hold; ``chemistry="valence"`` asks for nothing more.

    Args:
        mode: ``"paper"`` (default): a deep Q-network explores; of all molecules that it visited and that flip the
            prediction, the most similar one is the answer. It stops early where nothing is left that it could visit.
            ``"improved"``: all molecules of a level, breadth first, those nearest to a flip being expanded; the answer
            is the one with the fewest edits on the first level that has any, the most similar among equals.
        steps: Most steps from the molecule; 1 in mode ``paper`` and 3 in ``improved`` when ``None``.
        episodes: Walks of the agent (paper); 5000 when ``None``.
        beam: Molecules expanded a level (improved); 8 when ``None``.
        weight: ``w``, of the similarity in the reward.
        discount: Factor of the reward.
        embeddings: Look for ``h``; ``False`` takes Tanimoto's similarity alone.
        ring_sizes: Sizes of rings that a new bond may close.
        between_rings: Whether a new bond may join two atoms that lie in rings already.
        agent: How the agent learns (paper).
        seed: Of the agent; each graph has draws of its own.
        postprocess: ``"shrink"`` undoes edits as long as what is left is a molecule that flips.
        memory: Bytes that one batched pass may take.

    Raises:
        CapabilityError: RDKit is not installed (``counteredge[mol]``), or nodes are to be explained.
        InputError: Graphs that are no molecules by their schema, directed ones.

    Source:
        Numeroso and Bacciu, MEG: Generating Molecular Counterfactual Explanations for Deep Graph Networks (IJCNN 2021).

    Example:
        >>> from counteredge.schema import FeatureSchema
        >>> from torch_geometric.data import Data
        >>> def has_oxygen(batch):  # any alcohol will do
        ...     return [int(g.x[:, 1].any()) for g in batch.to_data_list()]
        >>> methanol = Data(x=torch.eye(2), edge_index=torch.tensor([[0, 1], [1, 0]]))
        >>> cf = MEG().explain(has_oxygen, methanol, edits=EditSpace(schema=FeatureSchema.onehot(["C", "O"])))
        >>> cf.edits.describe(cf.schema)
        ['-edge (0, 1)', '-node 1']
    """

    name: ClassVar[str] = "meg"
    modes: ClassVar[tuple[str, ...]] = ("paper", "improved")

    def __init__(
        self,
        mode: str | None = None,
        *,
        steps: int | None = None,
        episodes: int | None = None,
        beam: int | None = None,
        weight: float = 0.2,
        discount: float = 0.9,
        embeddings: bool = True,
        ring_sizes: Sequence[int] = RING_SIZES,
        between_rings: bool = True,
        agent: AgentOptions | None = None,
        seed: int = 0,
        postprocess: Literal["shrink"] | None = None,
        memory: int = 1 << 30,
    ) -> None:
        super().__init__(mode=mode, seed=seed, postprocess=postprocess, memory=memory)
        for option, value in (("steps", steps), ("episodes", episodes), ("beam", beam)):
            if value is not None:
                whole(option, value, 1)
        for option, of in (("episodes", "paper"), ("agent", "paper"), ("beam", "improved")):
            if {"episodes": episodes, "agent": agent, "beam": beam}[option] is not None and self.mode != of:
                raise InputError(f"{option}= belongs to mode={of!r} and does nothing with mode={self.mode!r}")
        if agent is not None and not isinstance(agent, AgentOptions):
            raise InputError(f"agent must be AgentOptions(...), got {agent!r}")
        if not isinstance(ring_sizes, Iterable):
            raise InputError(f"ring_sizes must be whole numbers >= 3, for example {RING_SIZES}, got {ring_sizes!r}")
        self.steps = STEPS[self.mode] if steps is None else steps
        self.episodes = EPISODES if episodes is None else episodes
        self.beam = BEAM if beam is None else beam
        self.weight, self.discount = number("weight", weight, 0, 1), number("discount", discount, 0, 1, open_below=True)
        self.embeddings = flag("embeddings", embeddings)
        self.ring_sizes = tuple(whole("ring_sizes: each", size, 3) for size in ring_sizes)
        self.between_rings = flag("between_rings", between_rings)
        self.agent = agent or AgentOptions()

    def parameters(self) -> dict[str, Any]:
        """The options of the chosen mode."""
        own = {"beam": self.beam} if self.mode == "improved" else {"episodes": self.episodes, **asdict(self.agent)}
        return {
            **super().parameters(),
            "steps": self.steps,
            **own,
            "weight": self.weight,
            "discount": self.discount,
            "embeddings": self.embeddings,
            "ring_sizes": list(self.ring_sizes),
            "between_rings": self.between_rings,
        }

    def describe_failure(self, search: Search) -> str:
        """What can be said of all graphs; ``search.reasons`` says it of each."""
        return (
            f"no molecule within {self.steps} step{'s' if self.steps > 1 else ''} is an answer, or the graph is none "
            "that RDKit takes, or the edit space leaves no step"
        )

    # -- what it is for ----------------------------------------------------------------------------------------------

    def _space(self, space: EditSpace) -> EditSpace:
        # answers are molecules whatever is asked for
        return replace(space, chemistry=None)

    def _ready(self, oracle: Oracle, schema: FeatureSchema) -> None:
        if isinstance(oracle, NodeOracle):
            raise CapabilityError("MEG explains molecules, not nodes of a graph: leave node= out")
        Columns.of(schema)

    def _search(self, search: Search) -> None:
        if search.base.directed:
            raise InputError("MEG edits bonds, which have no direction: give undirected graphs, and no directed=True")
        schema = search.moves.allowed.schema
        search.keeps = lambda row, edits: valid_molecule(edits.apply(search.base.graphs[row]), schema)
        worlds = []
        for row in search.open_rows().tolist():
            if search.late():
                search.stopped[row] = True
                continue
            found = Molecules(search, row, ring_sizes=self.ring_sizes, between_rings=self.between_rings)
            if found.start is None:
                search.reasons[row] = found.reason
            else:
                worlds.append(_World(row, found, found.start))
        self._embed(search, worlds)
        worlds = [w for w in worlds if not bool(search.stopped[w.row])]
        if self.mode == "improved":
            self._enumerate(search, worlds)
        else:
            for world in worlds:
                self._explore(search, world)
        search.reasons |= {w.row: self._why(search, w) for w in worlds if not bool(search.solved[w.row])}

    def _why(self, search: Search, world: _World) -> str:
        flips = sum(s.flips for s in world.seen.values())
        if flips:
            return f"{flips} of {len(world.seen)} molecules flip the prediction, none within the budget of edits"
        if world.seen:
            return f"none of {len(world.seen)} molecules within {self.steps} steps flips the prediction"
        if world.molecules.refused:
            ((why, count),) = world.molecules.refused.most_common(1)
            return f"there is no step to take; {count} were refused: {why}"
        return "the molecule has no successor"

    # -- the two ways ------------------------------------------------------------------------------------------------

    def _enumerate(self, search: Search, worlds: Sequence[_World]) -> None:
        """All molecules of a level of all graphs in one batch, level by level."""
        front = {w.row: [w.start] for w in worlds}
        for level in range(1, self.steps + 1):
            asked: list[tuple[_World, Candidate]] = []
            for w in worlds:
                fresh = self._level(search, w, front[w.row], last=level == self.steps)
                room = _room(search, w.row)
                if search.late() or len(fresh) > room:
                    search.stopped[w.row] = True
                    fresh = fresh[: 0 if search.late() else room]
                asked += [(w, c) for c in fresh]
            said = self._ask(search, asked)
            by_row: dict[int, list[_Seen]] = {w.row: [] for w in worlds}
            for (w, _), seen in zip(asked, said, strict=True):
                by_row[w.row].append(seen)
            for w in worlds:
                self._settle(search, w, f"level-{level}")
                own = sorted(by_row[w.row], key=lambda s: (-s.goal, -s.similarity, s.candidate.smiles))
                front[w.row] = [s.candidate for s in own[: self.beam]]
            worlds = [w for w in worlds if not bool(search.solved[w.row] | search.stopped[w.row])]

    def _level(self, search: Search, world: _World, front: Sequence[Candidate], *, last: bool) -> list[Candidate]:
        """The molecules one step on that nobody has seen; on the last level those that may be answers."""
        fresh: dict[str, Candidate] = {}
        for candidate in front:
            if search.late():
                break
            for c in world.molecules.successors(candidate):
                known = fresh.get(c.smiles)
                if c.smiles not in world.seen and (known is None or len(c.edits) < len(known.edits)):
                    fresh[c.smiles] = c
        return [c for c in fresh.values() if not last or _fits(search.budget, c.edits)]

    def _explore(self, search: Search, world: _World) -> None:
        """Episodes of an agent that is trained on the way."""
        agent = Agent(BITS + 1, self.agent, generator_of(world.molecules.graph, self.seed).initial_seed())
        known: dict[tuple[str, int], tuple[list[Candidate], Tensor]] = {}
        unseen: set[tuple[str, int]] = set()

        def actions(of: Candidate, left: int) -> tuple[list[Candidate], Tensor]:
            key = of.smiles, left
            if key not in known:
                found = world.molecules.successors(of) if left else []
                rows = [torch.cat([c.fingerprint, torch.tensor([left - 1], dtype=torch.uint8)]) for c in found]
                known[key] = found, torch.stack(rows) if rows else torch.zeros(0, BITS + 1, dtype=torch.uint8)
                unseen.update((c.smiles, left - 1) for c in found)
            return known[key]

        for _ in range(self.episodes):
            at, left = world.start, self.steps
            while left and not bool(search.stopped[world.row]):
                choices, rows = actions(at, left)
                if not choices:
                    break
                k = agent.choose(rows.float())
                at, left = choices[k], left - 1
                if at.smiles not in world.seen and (search.late() or not _room(search, world.row)):
                    search.stopped[world.row] = True
                    break
                seen = world.seen.get(at.smiles) or self._ask(search, [(world, at)])[0]
                unseen.discard((at.smiles, left))
                reward = self.discount * ((1 - self.weight) * seen.goal + self.weight * seen.similarity)
                following = actions(at, left)[1]
                agent.learn(rows[k], reward, following if len(following) else None)
            agent.end_episode()
            if not unseen or bool(search.stopped[world.row]) or search.late():
                break
        self._settle(search, world, "agent")

    # -- asking the model --------------------------------------------------------------------------------------------

    def _embed(self, search: Search, worlds: Sequence[_World]) -> None:
        """Ask for the originals once more, for the sake of ``h``; graphs that cannot afford it stop."""
        if not self.embeddings or _head(search.oracle) is None:
            return
        for w in worlds:
            search.stopped[w.row] |= _room(search, w.row) < 1
        able = [w for w in worlds if not bool(search.stopped[w.row])]
        if not able:
            return
        _, vectors = self._predict(search, [(w, w.start) for w in able])
        for k, w in enumerate(able):
            w.vector = None if vectors is None else vectors[k]

    def _predict(self, search: Search, asked: Sequence[tuple[_World, Candidate]]) -> tuple[Tensor, Tensor | None]:
        """Outputs of the untouched model, and ``h`` where it has one row a graph."""
        ids = [int(search.base.ids[w.row]) for w, _ in asked]
        with _listening(_head(search.oracle) if self.embeddings else None) as heard:
            z = search.oracle.predict([c.data for _, c in asked], ids)
        vectors = torch.cat([h.double().cpu() for h in heard]) if heard and all(h.dim() == 2 for h in heard) else None
        return z, vectors if vectors is not None and len(vectors) == len(asked) else None

    def _ask(self, search: Search, asked: Sequence[tuple[_World, Candidate]]) -> list[_Seen]:
        """Evaluate molecules, each for the first time."""
        if not asked:
            return []
        z, vectors = self._predict(search, asked)
        rows = torch.tensor([w.row for w, _ in asked])
        decision = search.oracle.decision
        flips, goals = decision.flips(z, search.y0[rows]), _goals(decision, z, search.y0[rows])
        said = []
        for k, (w, c) in enumerate(asked):
            alike = tanimoto(c.fingerprint, w.start.fingerprint)
            if vectors is not None and w.vector is not None:
                alike = (alike + float(torch.cosine_similarity(vectors[k], w.vector, dim=0))) / 2
            seen = _Seen(c, bool(flips[k]), _snapped(float(goals[k])), _snapped(alike))
            w.seen[c.smiles] = seen
            said.append(seen)
            if seen.flips and _fits(search.budget, c.edits):
                search.oracle.mark_valid(search.base.ids[rows[k : k + 1]])
        return said

    def _settle(self, search: Search, world: _World, stage: str) -> None:
        """Of the molecules that flip and fit, the best one is the answer."""
        able = [s for s in world.seen.values() if s.flips and _fits(search.budget, s.candidate.edits)]
        if not able:
            return
        best = min(able, key=self._rank).candidate
        search.answers[world.row] = best.edits, best.data
        search.solved[world.row] = search.outside[world.row] = True
        search.stage[world.row] = stage
        search.on_done(1)

    def _rank(self, seen: _Seen) -> tuple[float, float, str]:
        size, alike = float(len(seen.candidate.edits)), -seen.similarity
        return (*((size, alike) if self.mode == "improved" else (alike, size)), seen.candidate.smiles)


def _room(search: Search, row: int) -> int:
    """How many calls a graph may still spend."""
    if search.budget.calls is None:
        return 1 << 62
    return search.budget.calls - int(search.oracle.forward_calls[search.base.ids[row]])


def _fits(budget: Budget, edits: EditSet) -> bool:
    """Whether edits keep to the budget's sizes."""
    sizes = (
        (budget.edits, len(edits)),
        (budget.edges, edits.ged),
        (budget.features, edits.feature_count + edits.attribute_count),
    )
    return all(most is None or size <= most for most, size in sizes)


def _snapped(value: float) -> float:
    return round(value / GRID) * GRID


def _goals(decision: Decision, z: Tensor, y0: Tensor) -> Tensor:
    """Probability of what is wished; where outputs are none, the sigmoid of how far they are beyond the goal, (K,)."""
    if decision.flat:
        return decision.flips(z, y0).double()
    if decision.task not in ("multiclass", "binary"):
        return torch.sigmoid(-decision.margins(z, y0)).nan_to_num(0.0)
    p = decision.scores(z).softmax(1)
    wished = p[:, list(decision.classes)].sum(1) if decision.classes else 1 - p.gather(1, y0[:, None])[:, 0]
    return wished.nan_to_num(0.0)


def _head(oracle: Oracle) -> nn.Linear | None:
    """The last linear layer that gives the model's outputs."""
    layers = [m for m in oracle.model.modules() if isinstance(m, nn.Linear) and m.out_features == oracle.outputs]
    return layers[-1] if layers else None


@contextmanager
def _listening(layer: nn.Linear | None) -> Iterator[list[Tensor]]:
    """What a layer is given while the context is open."""
    heard: list[Tensor] = []
    if layer is None:
        yield heard
        return
    handle = layer.register_forward_pre_hook(lambda module, args: heard.append(args[0].detach()))
    try:
        yield heard
    finally:
        handle.remove()
