import hashlib
import sys

import pytest
import torch
from torch_geometric.utils import coalesce, is_undirected

from counteredge.datasets import load
from counteredge.datasets.files import local_file
from counteredge.datasets.molecules import read_bbbp
from counteredge.errors import CapabilityError, DataError

TABLE = "num,name,p_np,smiles\n1,a,1,C[NH3+]\n2,b,0,c1ccccc1O\n3,bad,1,C(C)(C)(C)(C)C\n4,salt,1,[Na+].[Cl-]\n"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("COUNTEREDGE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    (tmp_path / "BBBP.csv").write_text(TABLE)
    return tmp_path / "BBBP.csv"


def test_columns_and_bonds(table, capfd):
    pytest.importorskip("rdkit")
    graphs, columns, labels = read_bbbp(table, sha256=None)
    assert [c.name for c in columns] == ["C", "N", "O", "Na", "Cl", "aromatic", "charge", "hydrogens"]
    assert [c.kind for c in columns] == ["onehot"] * 5 + ["binary", "integer", "integer"]
    assert [(c.lo, c.hi) for c in columns[6:]] == [(-1.0, 1.0), (0.0, 3.0)]
    assert [int(g.y) for g in graphs] == [1, 0, 1]
    assert labels == ("does not penetrate", "penetrates")
    amine, phenol, salt = graphs
    assert amine.smiles == "C[NH3+]"
    assert amine.x.tolist() == [[1, 0, 0, 0, 0, 0, 0, 3], [0, 1, 0, 0, 0, 0, 1, 3]]
    assert amine.edge_attr.tolist() == [[1, 0, 0, 0]] * 2
    assert phenol.x[:, 5].tolist() == [1] * 6 + [0]
    assert phenol.edge_attr.sum(0).tolist() == [2, 0, 0, 12]
    assert is_undirected(phenol.edge_index, phenol.edge_attr)
    assert torch.equal(phenol.edge_index, coalesce(phenol.edge_index))
    assert salt.edge_index.shape == (2, 0)
    assert salt.edge_attr.shape == (0, 4)
    assert capfd.readouterr().err == ""  # RDKit says nothing about the row that it does not take


def test_without_rdkit(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(CapabilityError, match=r"pip install 'counteredge\[mol\]'"):
        read_bbbp(table)


def test_another_file_is_refused(table):
    pytest.importorskip("rdkit")
    digest = hashlib.sha256(table.read_bytes()).hexdigest()
    with pytest.raises(DataError, match=f"not the known BBBP.csv: its SHA-256 is {digest}"):
        load("BBBP", table.parent)
    with pytest.raises(DataError, match="cannot be read"):
        read_bbbp(table.parent / "none.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num,name,smiles\n1,a,C\n", "p_np"),
        ("num,name,p_np,smiles\n1,a,maybe,C\n", "no table"),
        ("num,name,p_np,smiles\n1,a,1\n", "needs a SMILES"),
        ("num,name,p_np,smiles\n1,a,2,C\n", "p_np of 0 or 1"),
        ("num,name,p_np,smiles\n1,a,1,C(C)(C)(C)(C)C\n", "no SMILES that RDKit can read"),
        ("num,name,p_np,smiles\n1,a,1,N->[Pt]\n", "bonds of kind DATIVE"),
        ("\xff\xfe", "no table"),
        ("", "no SMILES"),
    ],
)
def test_damaged_tables(table, text, message):
    pytest.importorskip("rdkit")
    table.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=message):
        read_bbbp(table, sha256=None)


@pytest.mark.data
def test_bbbp():
    pytest.importorskip("rdkit")
    if local_file("BBBP.csv") is None:
        pytest.skip("BBBP.csv is in none of the data folders")
    data = load("BBBP")
    assert (len(data), sum(int(g.y) for g in data)) == (2039, 1560)
    assert data.schema.names == (
        *("H", "B", "C", "N", "O", "F", "Na", "P", "S", "Cl", "Ca", "Br", "I"),
        *("aromatic", "charge", "hydrogens"),
    )
    elements = len(data.schema.group_of(0))
    assert all((g.x[:, :elements].sum(1) == 1).all() for g in data)
    assert data[0].smiles == "[Cl].CC(C)NCC(O)COc1cccc2ccccc12"
    assert load("BBBP", limit=1)[0].smiles == data[0].smiles
