"""docs/field_faults.md and the tests that it names agree, in both directions."""

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
DOC = HERE.parent / "docs" / "field_faults.md"

# Every row of the collected faults that concern a search explainer, by its threads.
ROWS = """
pyg#8966, #7454, PR#7512
pyg#1320, #4100
pyg#2934, #2922, #1443, #5855, #7223
pyg#7303
pyg#1730, #10024, RexYing#35
pyg#9653
pyg#6508
DIG#105, DIG#73
GraphXAI#41, DIG#166
DeepRobust#132, #120
pyg#1406
pyg#1342, #668
pyg#3762, #1173, #7173, #2373, #619
pyg#61, #795, PR#10549
pyg#1129
DIG#253
pyg PR#2576
pyg#9888, #1728
pyg#7039
pyg#258, PR#5447
pyg#4315, #5917, #8214
GRETEL cf2.py
pyg PR#7929
pyg#8403
pyg#5114
pyg#2034, RexYing#26, pyg#1985, DiCE#206
pyg#2788, #446, #92, #3175, pytorch#75179
pyg#6620, #10024, RexYing#4
gnnad#6
dgl#3052, pyg#7532, nngeometry#70
pyg#1408, graphstorm#713, PR#5530
[run] PyG GNNExplainer
DIG PR#109, PR#135
DIG#112, DIG#26, dgl#5535
LarsHoldijk#4
DIG#144, PR#168
ChandlerBang/Pro-GNN#14
pyg#2092
pyg#3265, PR#3628, PR#10739
pyg#8496, PR#5886, PR#6091, PR#10168
pyg#3785, #7306, #4588, #814
DIG PR#113
networkx#3673, #6229, #4113
OrphicX#2, GRETEL cf2/clear
pyg#3810 + [run]
DiCE#186
DiCE#441, #260
DiCE#106, #28
DiCE#349, #168
DiCE#270
DiCE#298, #354, #226, #218, #258
pyg#1223, PR#3177, PR#5967
DIG#111, PR#125
BorealisAI/SLAPS-GNN#3, GTN#20, DiCE `_find_features_having_missing_values`
DiCE#193
DiCE#206
rdkit#2009, #5849, gflownet PR#80
flyingdoog#11, DIG#145
""".strip().split("\n")


def plain(text):
    """``pyg PR#7512`` and ``test_pyg_pr_7512_...`` in the same letters."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def threads(row):
    """Each thread of a row, in :func:`plain` letters; a bare number belongs to the repository before it."""
    found, repo = [], ""
    for part in row.replace(" + [run]", "").split(", "):
        named = re.match(r"(?!PR#)([^#\s]+)", part)
        repo = named[1] if named else repo
        found.append(plain(part if named else f"{repo} {part}"))
    return found


def table():
    """``(threads, [tests], remark)`` of every row of the page."""
    rows = []
    for line in DOC.read_text(encoding="utf-8").split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] != "threads" and not set(cells[0]) <= {"-"}:
            rows.append((cells[0], re.findall(r"`([^`]+)`", cells[1]), cells[2]))
    return rows


def collected():
    """Functions of every test file, and the strings in their decorators, by ``file::name``."""
    found = {}
    for path in sorted(HERE.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                parts = [leaf for d in node.decorator_list for leaf in ast.walk(d)]
                ids = {leaf.value for leaf in parts if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)}
                found[f"{path.relative_to(HERE).as_posix()}::{node.name}"] = ids
    return found


TABLE, COLLECTED = table(), collected()


def test_every_row_is_on_the_page_once_and_in_order():
    assert [row for row, _, _ in TABLE] == ROWS


@pytest.mark.parametrize(("row", "tests", "remark"), TABLE, ids=[row for row, _, _ in TABLE])
def test_a_row_names_tests_that_exist_and_name_it(row, tests, remark):
    assert tests or remark, "a row without a test says why"
    for test in tests:
        name, _, parameter = test.partition("[")
        assert name in COLLECTED
        assert not parameter or parameter.removesuffix("]") in COLLECTED[name]
        assert any(f"_{thread}_" in f"_{plain(test)}_" for thread in threads(row)), f"{test} does not name {row}"
    for test in re.findall(r"`([^`]+::[^`]+)`", remark):
        assert test in COLLECTED


def test_every_test_that_names_a_row_is_on_the_page():
    every = {thread for row in ROWS for thread in threads(row)}
    listed = {test for _, tests, _ in TABLE for test in tests}
    named = set()
    for test, ids in COLLECTED.items():
        if any(test.split("::")[1].startswith(f"test_{thread}_") for thread in every):
            named.add(test)
        named |= {f"{test}[{k}]" for k in ids if any(f"{plain(k)}_".startswith(f"{thread}_") for thread in every)}
    assert len(named) > 50
    assert named == listed


def test_threads_are_read():
    assert threads("pyg#8966, #7454, PR#7512") == ["pyg_8966", "pyg_7454", "pyg_pr_7512"]
    assert threads("pyg#2034, RexYing#26, pyg#1985") == ["pyg_2034", "rexying_26", "pyg_1985"]
    assert threads("rdkit#2009, #5849, gflownet PR#80") == ["rdkit_2009", "rdkit_5849", "gflownet_pr_80"]
    assert threads("pyg#3810 + [run]") == ["pyg_3810"]
