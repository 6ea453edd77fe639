import zipfile

import numpy as np
import pytest
import torch

from counteredge.datasets import load, tu_sets
from counteredge.datasets.tu_sets import TUSpec, frequent_labels, read_tu_set
from counteredge.errors import DataError

TWITTER = "TWITTER-Real-Graph-Partial"


def write_zip(path, name, **parts):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in parts.items():
            archive.writestr(f"{name}/{name}_{part}.txt", text)
    return path


@pytest.fixture
def toy(tmp_path):
    return write_zip(
        tmp_path / "TOY.zip",
        "TOY",
        A="1, 2\n2, 1\n4, 5\n5, 4\n",
        graph_indicator="1\n1\n1\n3\n3\n",
        graph_labels="-1\n1\n1\n",
        node_labels="6\n8\n6\n1\n6\n",
        node_attributes="9.0, 0.5, 1\n9.0, 2.0, 0\n9.0, -1.0, 1\n9.0, 0.0, 1\n9.0, 0.25, 0\n",
    )


def test_attributes_then_labels_that_occur(toy):
    graphs, columns, labels = read_tu_set(toy, TUSpec("TOY", attributes=("w", ""), drop=1, node_labels="onehot"))
    assert labels == ("-1", "1")
    assert [int(g.y) for g in graphs] == [0, 1]  # the graph without nodes is left out
    assert [(c.kind, c.group, c.lo, c.hi, c.name) for c in columns] == [
        ("continuous", -1, -1.0, 2.0, "w"),
        ("binary", -1, 0.0, 1.0, ""),
        ("onehot", 0, 0.0, 1.0, "label=1"),
        ("onehot", 0, 0.0, 1.0, "label=6"),
        ("onehot", 0, 0.0, 1.0, "label=8"),
    ]
    assert graphs[0].x.tolist() == [[0.5, 1, 0, 1, 0], [2.0, 0, 0, 0, 1], [-1.0, 1, 0, 1, 0]]
    assert graphs[1].x.dtype == torch.float32
    assert graphs[1].edge_index.tolist() == [[0, 1], [1, 0]]


def test_symbols_name_labels(toy):
    spec = TUSpec("TOY", node_labels="onehot", symbols=("X", "H", *"XXXX", "C"))
    assert [c.name for c in read_tu_set(toy, spec).columns] == ["H", "C", "label=8"]


def test_labels_as_target(toy):
    graphs, columns, labels = read_tu_set(toy, TUSpec("TOY", node_labels="target"))
    assert labels == ("label=1", "label=6", "label=8")
    assert columns == ()
    assert [g.y.tolist() for g in graphs] == [[1, 2, 1], [0, 1]]
    assert graphs[0].x is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TUSpec("TOY", ("a", "b", "c")), "has 2 classes, expected 3: a, b, c"),
        (TUSpec("TOY", attributes=("w",)), "3 node attributes a line, expected 1"),
    ],
)
def test_files_that_do_not_fit_the_table(toy, spec, message):
    with pytest.raises(DataError, match=message):
        read_tu_set(toy, spec)


def test_missing_parts(tmp_path):
    bare = write_zip(tmp_path / "B.zip", "B", A="1,2\n2,1\n", graph_indicator="1\n1\n", graph_labels="0\n")
    with pytest.raises(DataError, match=r"need B_node_labels\.txt"):
        read_tu_set(bare, TUSpec("B", node_labels="onehot"))
    with pytest.raises(DataError, match="0 node attributes"):
        read_tu_set(bare, TUSpec("B", attributes=("",)))


def test_rare_labels_share_a_column(monkeypatch):
    monkeypatch.setattr(tu_sets, "MAX_LABELS", 3)
    labels = np.array([9, 9, 4, 7, 7, 5, 2])
    codes, names = frequent_labels(labels)
    assert names == ["label=7", "label=9", "other"]
    assert codes.tolist() == [1, 1, 2, 0, 0, 2, 2]
    codes, names = frequent_labels(labels[:4])
    assert names == ["label=4", "label=7", "label=9"]  # as many labels as columns: none is rare
    assert codes.tolist() == [2, 2, 0, 1]


@pytest.fixture
def twitter(tmp_path, monkeypatch):
    """A small file set in the format of TWITTER: 100 triangles, 300 node labels of which few are frequent."""
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "cache"))
    first = range(1, 301, 3)
    pairs = [(i + a, i + b) for i in first for a in range(3) for b in range(3) if a != b]
    return {
        "A": "".join(f"{i}, {j}\n" for i, j in pairs),
        "edge_attributes": "".join(f"{(i + j) / 4}\n" for i, j in pairs),
        "graph_indicator": "".join(f"{1 + k // 3}\n" for k in range(300)),
        "graph_labels": "1\n0\n" * 50,
        "node_labels": "".join(f"{k}\n" for k in range(300)),
    }


def test_twitter_format(twitter, tmp_path):
    write_zip(tmp_path / f"{TWITTER}.zip", TWITTER, **twitter)
    data = load("TWITTER", tmp_path)
    assert (len(data), data.num_classes, data.schema.width) == (100, 2, 256)
    assert data.schema.names[-1] == "other"
    assert len(data.schema.group_of(0)) == 256
    assert data[0].edge_attr[0].tolist() == [0.75]
    assert sum(float(g.x[:, -1].sum()) for g in data) == 300 - 255
    assert all((g.x.sum(1) == 1).all() for g in data)

    nodes = load("TWITTER-node", tmp_path)
    assert (nodes.task, nodes.num_classes) == ("node", 300)
    assert nodes[1].y.tolist() == [3, 4, 5]
    assert set(nodes.schema.names) == {"degree", "clustering", "closeness", "betweenness", "harmonic", "katz"}


def test_twitter_without_its_edges_says_what_is_missing(twitter, tmp_path):
    parts = {part: text for part, text in twitter.items() if part not in ("A", "edge_attributes")}
    write_zip(tmp_path / f"{TWITTER}.no-edges.zip", TWITTER, **parts)
    with pytest.raises(DataError, match=f"has no {TWITTER}_A.txt; the whole zip"):
        load(TWITTER, tmp_path)
