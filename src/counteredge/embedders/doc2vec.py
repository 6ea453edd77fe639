"""Vectors of documents by PV-DBOW: a deterministic model of our own, and gensim's."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import warnings
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from counteredge.embedders.base import hidden
from counteredge.embedders.words import Documents
from counteredge.errors import CapabilityError, InputError

__all__ = ["Backend", "Doc2VecOptions", "DocumentModel", "GensimDoc2Vec", "NativeDoc2Vec"]

Backend = Literal["native", "gensim"]
BACKENDS = ("native", "gensim")
BATCH = 64  # documents of one update
ROWS = 16  # a batch is filled up to a multiple of it: how products are rounded may depend on their shapes
LAST_RATE = 1e-5  # what the learning rate falls to while a vector is inferred
NOISE_POWER = 0.75
CURVATURE = 0.25  # largest of x (1 - x), which bounds the second derivative of log sigmoid


@dataclass(frozen=True, kw_only=True)
class Doc2VecOptions:
    """How documents become vectors; the defaults are karateclub's.

    Args:
        dim: Length of the vectors.
        epochs: Passes over the documents, in fitting and in inference.
        learning_rate: What the learning rate starts with.
        min_alpha: What it falls to while fitting.
        down_sampling: Share of a word in all words above which it is thinned out; 0 for never.
        min_count: Words that occur less often in all fitted documents together are ignored.
        negative: Noise words for each word.
        seed: Of the start vectors.

    Raises:
        InputError: For a value that cannot be used.
    """

    dim: int = 128
    epochs: int = 10
    learning_rate: float = 0.025
    min_alpha: float = 1e-4
    down_sampling: float = 1e-4
    min_count: int = 5
    negative: int = 5
    seed: int = 42

    def __post_init__(self) -> None:
        for name in ("dim", "epochs", "min_count", "negative"):
            whole(name, getattr(self, name), 1)
        whole("seed", self.seed, 0)
        if self.seed >= 1 << 32:
            raise InputError(f"seed={self.seed} is too large: give a whole number below 2^32")
        rate, last, share = self.learning_rate, self.min_alpha, self.down_sampling
        if not (_real(rate) and 0 < rate < math.inf):
            raise InputError(f"learning_rate={rate!r} is not usable: give a number above 0, such as 0.025")
        if not (_real(last) and 0 <= last <= rate):
            raise InputError(f"min_alpha={last!r} is not usable: give a number from 0 to learning_rate={rate}")
        if not (_real(share) and 0 <= share <= 1):
            raise InputError(f"down_sampling={share!r} is not usable: give a number from 0 (off) to 1, such as 1e-4")

    @property
    def start(self) -> Tensor:
        """The vector that inference starts with, for every document: uniform in ``+-0.5 / dim``, ``(dim,)``."""
        return self.draw(1)[0] / 2

    def draw(self, rows: int) -> Tensor:
        """Seeded vectors, uniform in ``+-1 / dim``, ``(rows, dim)``; the first is twice :attr:`start`."""
        generator = torch.Generator().manual_seed(self.seed)
        return (2 * torch.rand(rows, self.dim, dtype=torch.float64, generator=generator) - 1) / self.dim


def whole(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name}={value!r} is not usable: give a whole number of at least {least}")


def _real(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class DocumentModel(Protocol):
    """Learns from documents, then gives vectors of documents."""

    def fit(self, documents: Documents, progress: bool | None = None) -> None:
        """Learn from the documents."""

    def infer(self, documents: Documents, progress: bool | None = None) -> Tensor:
        """Vectors, ``(N, dim)``."""


class NativeDoc2Vec:
    """PV-DBOW with expected instead of sampled updates, so that nothing is random but the start vector.

    Let ``C`` be the counts of the words that occur at least ``min_count`` times, ``f_w`` how often a word occurs in
    all fitted documents, and ``t = down_sampling sum_w f_w``. Frequent words are thinned out by what subsampling keeps
    of them on average, ``C'_dw = C_dw min(1, (sqrt(f_w / t) + 1) t / f_w)``, and noise words are weighed by their
    probability ``p_w ~ f_w^0.75``. With ``X = sigmoid(V U^T)``::

        G = C' * (1 - X) - negative (C' 1) p^T * X
        V += rate G U,    U += rate G^T V    (old values on the right)

    in batches of 64 documents. ``U`` starts at 0, each row of ``V`` at a seeded vector of its own, the rate falls
    linearly. Inference starts at one seeded vector, the same for all documents, and updates ``V`` alone: a vector
    depends on the document and on what was fitted, on nothing else.

    Such an update takes all words of a batch at once, where the original goes word by word; with large documents it
    would overshoot and diverge. So no row goes further than ``2 / L``, within which a step along its gradient cannot
    lower the likelihood; ``L = 1/4 sum_w (C'_dw + negative (C' 1)_d p_w) |U_w|^2`` for a document, likewise for a word.
    Documents of a few dozen words are hardly affected.

    Unknown words are ignored; a document with no known word keeps the start vector. Everything is in double precision;
    a batch needs a dense matrix of 64 rows and one column a known word, and as many rows of ``U``.

    Args:
        options: See :class:`Doc2VecOptions`.

    Source:
        Le and Mikolov, Distributed representations of sentences and documents (ICML 2014).

    Example:
        >>> model = NativeDoc2Vec(Doc2VecOptions(dim=4, min_count=1))
        >>> model.fit(Documents.of([["a", "b"], ["b", "c"]]))
        >>> found = model.infer(Documents.of([["b", "a"], ["a", "b"], ["unknown"]]))
        >>> torch.equal(found[0], found[1]), torch.equal(found[2], model.options.start)
        (True, True)
    """

    def __init__(self, options: Doc2VecOptions) -> None:
        self.options = options
        self.vocabulary: dict[str, int] = {}
        self.keep = self.noise = torch.zeros(0, dtype=torch.float64)
        self.output = torch.zeros(0, options.dim, dtype=torch.float64)

    def fit(self, documents: Documents, progress: bool | None = None) -> None:
        """Learn ``U``, the vectors of the words.

        Args:
            documents: In the order in which batches are made of them.
            progress: ``False`` for no bar.
        """
        o = self.options
        self._count(documents)
        self.output = torch.zeros(len(self.vocabulary), o.dim, dtype=torch.float64)
        if not self.vocabulary:
            return
        rows = self._known(documents)
        # one start for all would leave every vector a multiple of it, and every cosine 1
        vectors = o.draw(documents.size + 1)[1:].clone()
        updates = o.epochs * math.ceil(documents.size / BATCH)
        done = 0
        for _ in tqdm(range(o.epochs), desc="fitting", unit="epoch", delay=2, leave=False, disable=hidden(progress)):
            for first in range(0, documents.size, BATCH):
                rate = o.learning_rate - (o.learning_rate - o.min_alpha) * done / updates
                self._update(vectors[first : first + BATCH], rows.slice(first, first + BATCH), rate)
                done += 1

    def _update(self, vectors: Tensor, counts: _Rows, rate: float) -> None:
        """One update of ``V`` and of ``U``, in place."""
        noise = self.options.negative * self.noise
        gradient, length = self._gradient(vectors, counts)
        size = vectors.square().sum(1)
        bend = noise * (length @ size)
        bend.index_add_(0, counts.word, counts.count * size[counts.row])
        words = gradient.T @ vectors
        vectors += self._rates(rate, counts, length) * (gradient @ self.output)
        self.output += words.mul_((2 / (CURVATURE * bend)).clamp(max=rate)[:, None])

    def _rates(self, rate: float, counts: _Rows, length: Tensor) -> Tensor:
        """How far each document may go, ``(rows, 1)``."""
        size = self.output.square().sum(1)
        bend = self.options.negative * length * torch.dot(self.noise, size)
        bend.index_add_(0, counts.row, counts.count * size[counts.word])
        return (2 / (CURVATURE * bend)).clamp(max=rate)[:, None]

    def infer(self, documents: Documents, progress: bool | None = None) -> Tensor:
        """Vectors of documents, one independent of the others.

        Shapes:
            returns ``(N, dim)``, double precision.
        """
        o = self.options
        found = o.start.repeat(documents.size, 1)
        if not self.vocabulary:
            return found
        rows = self._known(documents)
        batches = range(0, documents.size, BATCH)
        for first in tqdm(batches, desc="inferring", unit="batch", delay=2, leave=False, disable=hidden(progress)):
            some = min(BATCH, documents.size - first)
            part = o.start.repeat(-(-some // ROWS) * ROWS, 1)
            counts = rows.slice(first, first + some)
            for rate in np.linspace(o.learning_rate, min(LAST_RATE, o.learning_rate), o.epochs).tolist():
                gradient, length = self._gradient(part, counts)
                part += self._rates(rate, counts, length) * (gradient @ self.output)
            found[first : first + some] = part[:some]
        return found

    def _count(self, documents: Documents) -> None:
        """The vocabulary, and how often its words are kept and drawn as noise."""
        o = self.options
        total = torch.zeros(len(documents.words), dtype=torch.long).index_add_(0, documents.word, documents.count)
        kept = sorted((documents.words[i], i) for i in (total >= o.min_count).nonzero().flatten().tolist())
        self.vocabulary = {w: k for k, (w, _) in enumerate(kept)}
        f = total[torch.tensor([i for _, i in kept], dtype=torch.long)].double()
        share = f / (o.down_sampling * f.sum()) if o.down_sampling else torch.zeros_like(f)
        self.keep = ((share.sqrt() + 1) / share).clamp(max=1)
        self.noise = f**NOISE_POWER / (f**NOISE_POWER).sum()

    def _known(self, documents: Documents) -> _Rows:
        """The entries of known words, thinned out; sorted, so that sums do not depend on how words were numbered."""
        place = torch.tensor([self.vocabulary.get(w, -1) for w in documents.words], dtype=torch.long)
        word = place[documents.word]
        known = word >= 0
        row, word, count = documents.graph[known], word[known], documents.count[known]
        order = torch.argsort(row * len(self.vocabulary) + word)
        row, word = row[order], word[order]
        return _Rows(row, word, count[order] * self.keep[word])

    def _gradient(self, vectors: Tensor, counts: _Rows) -> tuple[Tensor, Tensor]:
        """``G``, ``(rows, words)``, and ``C' 1``."""
        length = torch.zeros(len(vectors), dtype=torch.float64).index_add_(0, counts.row, counts.count)
        g = torch.sigmoid_(vectors @ self.output.T)
        own = counts.count * (1 - g[counts.row, counts.word])
        g.mul_(length[:, None] * -self.options.negative).mul_(self.noise)
        g[counts.row, counts.word] += own
        return g, length


@dataclass(frozen=True)
class _Rows:
    """A sparse matrix by rows."""

    row: Tensor
    word: Tensor
    count: Tensor

    def slice(self, first: int, last: int) -> _Rows:
        a, b = torch.searchsorted(self.row, torch.tensor([first, last])).tolist()
        return _Rows(self.row[a:b] - first, self.word[a:b], self.count[a:b])


class GensimDoc2Vec:
    """gensim's PV-DBOW with one worker, for comparison with published numbers.

    Words are sorted, and before each inference its random numbers are set back, so that a graph has one vector.
    It starts from a vector that depends on Python's hash of the words: set ``PYTHONHASHSEED`` before Python starts, or
    other processes find other vectors. gensim reads the first 10 000 words of a document only.

    Args:
        options: See :class:`Doc2VecOptions`.

    Raises:
        CapabilityError: When gensim is not installed.

    Source:
        Le and Mikolov, Distributed representations of sentences and documents (ICML 2014); RaRe-Technologies, gensim.
    """

    def __init__(self, options: Doc2VecOptions) -> None:
        if importlib.util.find_spec("gensim") is None:
            raise CapabilityError(
                "backend='gensim' needs gensim, which is not installed: pip install 'counteredge[doc2vec]', or use "
                "backend='native'"
            )
        self.options = options
        self.model: Any = None

    def fit(self, documents: Documents, progress: bool | None = None) -> None:
        """Learn from the documents; gensim shows no bar."""
        o = self.options
        self.model = None
        if os.environ.get("PYTHONHASHSEED", "random") in ("", "random"):
            warnings.warn(
                "PYTHONHASHSEED is not set: gensim's vectors will differ in another process. Start Python with "
                "PYTHONHASHSEED=0, or use backend='native'",
                stacklevel=2,
            )
        total = torch.zeros(len(documents.words), dtype=torch.long).index_add_(0, documents.word, documents.count)
        if not bool((total >= o.min_count).any()):
            return  # gensim refuses an empty vocabulary
        gensim = importlib.import_module("gensim.models.doc2vec")
        tagged = [gensim.TaggedDocument(words, [k]) for k, words in enumerate(documents.lists())]
        self.model = gensim.Doc2Vec(
            tagged,
            dm=0,
            window=0,
            workers=1,
            vector_size=o.dim,
            epochs=o.epochs,
            alpha=o.learning_rate,
            min_alpha=o.min_alpha,
            sample=o.down_sampling,
            min_count=o.min_count,
            negative=o.negative,
            ns_exponent=NOISE_POWER,
            seed=o.seed,
        )

    def infer(self, documents: Documents, progress: bool | None = None) -> Tensor:
        """Vectors of documents; a document without words has the native model's start vector.

        Shapes:
            returns ``(N, dim)``, double precision.
        """
        o = self.options
        found = o.start.repeat(documents.size, 1)
        if self.model is None:
            return found
        last = min(LAST_RATE, o.learning_rate)
        lists = documents.lists()
        bar = tqdm(lists, desc="inferring", unit="graph", delay=2, leave=False, disable=hidden(progress))
        for k, words in enumerate(bar):
            if words:  # gensim's own start vector of no words differs from call to call
                self.model.random = np.random.RandomState(o.seed)
                vector = self.model.infer_vector(words, alpha=o.learning_rate, min_alpha=last, epochs=o.epochs)
                found[k] = torch.from_numpy(np.asarray(vector, dtype=np.float64))
        return found
