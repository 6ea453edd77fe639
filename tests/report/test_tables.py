"""Tables of a sweep: every cell against a figure computed here, every format against its own rules."""

import csv
import io
import math
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from frames import collected

from counteredge.bench.collect import Collected
from counteredge.errors import InputError
from counteredge.metrics import METRICS
from counteredge.report import tables as built
from counteredge.report.cells import DASH, Cell, Column, Row, Table, marked, number_text
from counteredge.report.formats import cell_text, to_csv, to_latex, to_markdown
from counteredge.report.pooled import column


@pytest.fixture(scope="module")
def sweep():
    return collected()


def values(sweep, dataset, method, name):
    rows = sweep.instances
    return rows[(rows["dataset"] == dataset) & (rows["method"] == method)][name].to_numpy(float)


def cell(table, method, key, **labels):
    """The cell of a row (named by its labels) and a column."""
    keys = [c.key for c in table.columns]
    wanted = {"method": method, **labels}
    (row,) = [r for r in table.rows if all(r.cells[keys.index(k)].value == v for k, v in wanted.items())]
    return row.cells[keys.index(key)]


def made(**methods):
    """Results on one dataset: of each method the edits of its graphs, ``None`` for one without a counterfactual.

    A key is ``explainer__preset``, with ``__seedN`` for a seed; a value of ``"failed"`` is a job that failed.
    """
    jobs, instances = [], []
    for order, (name, edits) in enumerate(methods.items()):
        explainer, preset, *rest = name.split("__")
        seed = int(rest[0].removeprefix("seed")) if rest else 0
        head = dict(
            key=f"{order:016d}", order=order, dataset="MUTAG", explainer=explainer, preset=preset, features="",
            method=explainer, seed=seed, part=0,
        )  # fmt: skip
        failed = isinstance(edits, str)
        jobs.append(head | dict(gamma=0.0, parts=1, status="failed" if failed else "done", error="x" if failed else ""))
        if failed:
            continue
        found = np.array([e is not None for e in edits])
        size = np.array([math.nan if e is None else e for e in edits], float)
        columns = {k: np.where(found, 1.0, math.nan) for k, m in METRICS.items() if not m.whole}
        columns |= dict(
            graph=np.arange(len(edits)), node=pd.array([None] * len(edits), dtype="Int64"), found=found, before="0",
            validity=found.astype(float), fidelity=found.astype(float), ged=size, feature_edits=size * 0,
            calls_forward=np.full(len(edits), 1.0),
        )  # fmt: skip
        instances.append(pd.DataFrame(head | columns))
    return Collected(pd.DataFrame(jobs), pd.concat(instances, ignore_index=True))


# -- numbers and marks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.99949, "percent", "99.9"), (1.0, "percent", "100.0"), (0.12345, "ratio", "0.123"),
        (3.14159, "count", "3.14"),
        (12, "whole", "12"), (1234.5, "seconds", "1230"), (12.345, "seconds", "12.3"), (9.999, "seconds", "10.0"),
        (0.00012345, "seconds", "0.000123"), (0.0, "seconds", "0"), (-0.0001, "ratio", "0.000"),
        (-0.5, "ratio", "-0.500"), (None, "ratio", "–"), (math.nan, "percent", "–"),
    ],
)  # fmt: skip
def test_numbers_are_written_by_their_unit(value, unit, text):
    assert number_text(value, unit) == text


def marks(direction, numbers, competing=None, unit="ratio", **options):
    cells = [n if isinstance(n, Cell) else Cell(n) for n in numbers]
    of = Column("x", "x", unit, direction)
    return [c.mark for c in marked(cells, of, competing or [True] * len(cells), **options)]


def test_best_and_second_by_direction():
    assert marks("higher", [0.1, 0.9, 0.5]) == ["", "best", "second"]
    assert marks("lower", [0.1, 0.9, 0.5]) == ["best", "", "second"]
    assert marks("neither", [0.1, 0.9, 0.5]) == ["", "", ""]
    assert marks("higher", [0.1, 0.9, 0.5], second=False) == ["", "best", ""]


def test_what_reads_alike_shares_its_rank():
    assert marks("higher", [0.90001, 0.9, 0.5, 0.50004, 0.1]) == ["best", "best", "second", "second", ""]


def test_missing_partial_zero_and_excluded_values_win_nothing():
    assert marks("lower", [None, math.nan, 0.5, 0.7]) == ["", "", "best", "second"]
    assert marks("higher", [Cell(0.9, partial=True), 0.5], unit="percent") == ["", "best"]
    assert marks("higher", [1.0, 0.9, 0.5], [False, True, True]) == ["", "best", "second"]
    assert marks("higher", [0.0, 0.00001, 0.5]) == ["", "", "best"]
    assert marks("lower", [0.0, 0.5]) == ["best", "second"]
    assert marks("higher", [None, None]) == ["", ""]


# -- formats ----------------------------------------------------------------------------------------------------------

NASTY = r"a_b & 50% #1 $x$ {y} ~^ \cmd <b>|</b> [*`é漢" + "\n\x07"


def nasty():
    columns = (Column("method", NASTY), Column("v", "V", "ratio", "higher"), Column("n", "N", "count", "lower"))
    rows = (
        Row((Cell(NASTY), Cell(0.5, std=0.25, paper=0.75, count=4, mark="best"), Cell(2, partial=True))),
        Row((Cell("[plain"), Cell(-0.25, mark="second"), Cell(None, paper=1.0))),
        Row((Cell("control"), Cell(1 / 3), Cell(1.0)), control=True),
    )
    return Table("nasty", NASTY, NASTY, columns, rows, about=(("dataset", NASTY),), spread=True)


def latex_is_sound(text):
    """No special character that is not escaped, braces and environments closed, the same cells in each row."""
    assert max(text) <= "ÿ"
    comment, _, body = text.partition("\n")
    assert comment.startswith("% needs")
    assert not re.search(r"(?<!\\)[#~^](?!\\dagger|[23]\$)", body)
    assert not re.search(r"(?<!\\)%(?!\n)", body)
    for maths in re.findall(r"(?<!\\)\$([^$]*)(?<!\\)\$", body):
        assert maths in (r"\uparrow", r"\downarrow", r"\pm", r"\leq", r"^\dagger", "-", "^2", "^3", r"\gamma")
    plain = re.sub(r"\\[{}]", "", body)
    depth = 0
    for c in plain:
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    assert not re.search(r"(?<!\\)_", plain)
    assert re.findall(r"\\begin{(.*?)}", body).count("tabular") == body.count(r"\end{tabular}")
    for one in body.split(r"\begin{table*}")[1:]:
        assert all(part in one for part in (r"\end{table*}", r"\caption{", r"\label{tab:", r"\toprule", r"\bottomrule"))
        for block in one.split(r"\toprule")[1:]:
            lines = [line for line in block.splitlines() if line.endswith(r" \\")]
            assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1
            assert not any(line.startswith(("[", "*")) for line in lines)


def test_latex_escapes_everything():
    text = to_latex([nasty()])
    latex_is_sound(text)
    assert "漢" not in text
    assert r"\textbf{0.500 $\pm$ 0.250} (0.750)" in text
    assert r"\underline{$-$0.250}" in text
    assert r"2.00$^\dagger$" in text
    assert r"-- (1.00) \\" in text
    assert "{[}plain" in text
    assert text.count(r"\midrule") == 2  # beneath the heads, above the controls


def test_latex_cuts_what_is_wider_than_a_page():
    numbers = [Column(f"v{k}", f"Value {k:02}", "ratio") for k in range(30)]
    columns = (Column("m", "Method"), *numbers, Column("n", "Note"))
    rows = tuple(Row((Cell(m), *(Cell(k / 30) for k in range(30)), Cell("said"))) for m in ("CF²", "γ = 1"))
    text = to_latex([Table("wide", "Wide", "", columns, rows)])
    latex_is_sound(text)
    blocks = text.split(r"\toprule")[1:]
    heads = [block.strip().splitlines()[0].removesuffix(r" \\").split(" & ") for block in blocks]
    assert len(blocks) == 3
    assert all(head[:2] == ["Method", "Note"] for head in heads)
    assert [h for head in heads for h in head[2:]] == [c.head for c in numbers]
    assert all("CF$^2$ & said" in block and r"$\gamma$ = 1" in block for block in blocks)


def test_the_spread_of_seconds_has_the_decimals_of_its_value():
    of = Column("runtime", "Runtime", "seconds")
    assert cell_text(Cell(0.0679, std=5.1e-7), of, spread=True)[0] == "0.0679 ± 0.0000"
    assert cell_text(Cell(12.3, std=0.456), of, spread=True)[0] == "12.3 ± 0.5"


def test_markdown_escapes_everything():
    lines = to_markdown([nasty()]).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {4}
    assert not any("<" in line or ">" in line for line in lines)
    assert r"a\_b &amp; 50% #1 \$x\$" in rows[0]
    assert "**0.500 ± 0.250** (0.750) | 2.00† |" in rows[2]
    assert "| *-0.250* | – (1.00) |" in rows[3]
    assert rows[4].startswith("| *controls* |")
    assert rows[5] == "| control | 0.333 | 1.00 |"


def test_csv_has_full_precision_and_raw_text():
    rows = list(csv.DictReader(io.StringIO(to_csv([nasty(), nasty()]))))
    assert len(rows) == 12
    assert rows[0] == {
        "dataset": NASTY, "method": NASTY, "metric": "v", "value": "0.5", "std": "0.25", "low": "", "high": "",
        "graphs": "4", "paper": "0.75", "mark": "best", "partial": "0",
    }  # fmt: skip
    assert float(rows[4]["value"]) == 1 / 3
    assert rows[3]["value"] == ""
    assert rows[1]["partial"] == "1"


# -- main and extended tables -----------------------------------------------------------------------------------------


def test_main_table_holds_the_means(sweep):
    validity, fidelity = built.main_table(sweep)
    for table, metric in ((validity, "validity"), (fidelity, "fidelity")):
        assert [c.key for c in table.columns] == ["method", "Tree-Cycles", "MUTAG", "BZR"]
        for d in ("Tree-Cycles", "MUTAG", "BZR"):
            for m in ("iRand", "XPlore", "XPlore (paper, freedom)"):
                expected = values(sweep, d, m, metric)
                got = cell(table, m, d)
                assert got.value == pytest.approx(expected.mean())
                assert got.std == pytest.approx(expected.std(ddof=1))
                assert got.count == 30
                assert got.low <= got.value <= got.high
    assert cell(validity, "XPlore", "MUTAG").paper == cell(validity, "XPlore (paper, freedom)", "MUTAG").paper == 0.6755
    assert cell(validity, "XPlore (paper, edges only)", "MUTAG").paper == 0.45745
    assert cell(fidelity, "XPlore (paper, edges only)", "MUTAG").paper is None


def test_main_table_ranks_methods_and_no_controls(sweep):
    table = built.main_table(sweep)[0]
    assert table.rows[-1].control
    assert not any(r.control for r in table.rows[:-1])
    for k, d in enumerate(("Tree-Cycles", "MUTAG", "BZR"), start=1):
        searched = {r.cells[0].value: values(sweep, d, r.cells[0].value, "validity") for r in table.rows[:-1]}
        shares = {m: round(100 * v.mean(), 1) for m, v in searched.items() if len(v) and v.any()}
        first, second, *_ = sorted(set(shares.values()), reverse=True)
        for row in table.rows:
            share = shares.get(row.cells[0].value)
            assert row.cells[k].mark == {first: "best", second: "second"}.get(share, "")


def test_a_control_that_beats_all_is_not_marked():
    table = built.main_table(made(irand__paper=[1, None], empty_graph__paper=[1, 1]))[0]
    assert cell(table, "empty_graph", "MUTAG").value == 1
    assert cell(table, "empty_graph", "MUTAG").mark == ""
    assert cell(table, "irand", "MUTAG").mark == "best"


def test_failed_jobs_are_dashes_and_partly_failed_ones_are_marked():
    results = made(irand__paper=[1, None], cf2__paper="failed", clear__paper=[1, 1], clear__paper__seed1="failed")
    table = built.main_table(results)[0]
    assert cell(table, "cf2", "MUTAG").value is None
    assert cell(table, "clear", "MUTAG").partial
    assert cell(table, "clear", "MUTAG").mark == ""
    assert cell(table, "irand", "MUTAG").mark == "best"
    text = to_markdown([table])
    assert f"| cf2 | {DASH} (0.0) |" in text
    assert "| clear | 100.0† (35.1) |" in text
    assert "Some jobs failed" in text


def test_a_method_that_finds_nothing_wins_nothing_by_giving_up_early():
    results = made(irand__paper=[1, None], cf2__paper=[None, None])
    results.instances.loc[results.instances["method"] == "irand", "calls_forward"] = 9.0
    (table,) = built.extended_tables(results)
    assert cell(table, "cf2", "calls_forward").value == 1
    assert cell(table, "cf2", "calls_forward").mark == ""
    assert cell(table, "irand", "calls_forward").mark == "best"
    assert cell(table, "cf2", "ged").value is None


def test_extended_tables_hold_the_means(sweep):
    tables = built.extended_tables(sweep)
    assert [dict(t.about)["dataset"] for t in tables] == ["Tree-Cycles", "MUTAG", "BZR"]
    keys = [c.key for c in tables[0].columns]
    assert keys == [
        "method", "graphs", "validity", "fidelity", "edit_ratio", "ged", "feature_edits", "shrunk_edit_ratio",
        "shrunk_ged", "shrunk_feature_edits", "cosine_similarity", "calls_forward", "calls_backward",
        "calls_to_first_valid", "runtime", "one_minimal_share",
    ]  # fmt: skip
    for table, dataset in zip(tables, ("Tree-Cycles", "MUTAG", "BZR"), strict=True):
        for row in table.rows:
            method = row.cells[0].value
            for c, of in list(zip(row.cells, table.columns, strict=True))[2:]:
                expected = values(sweep, dataset, method, of.key)
                expected = expected[~np.isnan(expected)]
                assert c.count == len(expected)
                if len(expected):
                    assert c.value == pytest.approx(expected.mean())
                else:
                    assert c.value is None
    assert cell(tables[0], "iRand", "calls_forward").paper == 10.666
    assert cell(tables[0], "XPlore", "edit_ratio").paper == 2.708
    assert cell(tables[1], "CF2", "graphs").value == 0
    assert tables[0].columns[4].head == "Edit ratio ↓"
    assert column("shrunk_ged").head == "Shrunk GED ↓"


def test_seconds_can_be_left_out(sweep):
    with_, without = built.extended_tables(sweep)[0], built.extended_tables(sweep, timings=False)[0]
    assert {c.key for c in with_.columns} - {c.key for c in without.columns} == {"runtime"}
    assert "runtime" not in set(built.paper_table_rows(sweep, timings=False)["metric"])


def test_a_figure_that_the_paper_prints_twice_is_named():
    results = made(d4explainer__paper=[1, 2])
    results.jobs["dataset"] = results.instances["dataset"] = "BAShapes"
    (table,) = built.extended_tables(results)
    assert "prints 0.3516 and 0.4456 as the validity of d4explainer" in table.caption
    assert "prints" not in built.extended_tables(made(d4explainer__paper=[1, 2]))[0].caption


def test_seeds_and_parts_are_pooled():
    results = made(irand__paper__seed0=[1, None, None], irand__paper__seed1=[4], cf2__paper=[None])
    pooled = cell(built.extended_tables(results)[0], "irand", "ged")
    assert (pooled.value, pooled.count) == (2.5, 2)
    assert cell(built.main_table(results)[0], "irand", "MUTAG").value == 0.5


# -- methods on equal terms -------------------------------------------------------------------------------------------


def test_paired_table_counts_edits_by_hand():
    results = made(
        irand__paper=[1, 2, 12, None, 5],
        cfgnn__paper=[None, 4, 2, 3, 1],
        cf2__paper=[None] * 5,
        empty_graph__paper=[9, 9, 9, 9, 9],
        complete_graph__paper=[1, 1, None, 1, 1],
    )
    results.instances.loc[results.instances["method"] == "cfgnn", "feature_edits"] += 1
    (table,) = built.paired_table(results)

    def shares(method):
        return [cell(table, method, f"validity_{k}").value for k in (1, 2, 5, 10)]

    assert shares("irand") == pytest.approx([0.2, 0.4, 0.6, 0.6])
    assert shares("cfgnn") == pytest.approx([0, 0.2, 0.8, 0.8])  # 5, 3, 4, 2 edits
    assert shares("cf2") == [0, 0, 0, 0]
    assert shares("empty_graph") == [0, 0, 0, 1]
    # graphs 1, 2 and 4 are solved by both methods
    assert cell(table, "irand", "edits_shared").value == pytest.approx((2 + 12 + 5) / 3)
    assert cell(table, "cfgnn", "edits_shared").value == pytest.approx((5 + 3 + 2) / 3)
    assert cell(table, "cfgnn", "edits_shared").mark == "best"
    assert cell(table, "irand", "edits_shared").mark == "second"
    assert cell(table, "cf2", "edits_shared").value is None
    assert cell(table, "empty_graph", "edits_shared").value == 9
    assert cell(table, "complete_graph", "edits_shared").value is None  # not all of them
    assert "(3 graphs, 2 methods)" in table.caption
    assert table.caption.endswith("answered none: cf2.")
    assert [cell(table, "irand", f"validity_{k}").mark for k in (1, 2, 5, 10)] == ["best", "best", "second", "second"]


def test_paired_table_pairs_by_seed():
    results = made(irand__paper__seed0=[1, None], irand__paper__seed1=[50, 60], cfgnn__paper__seed0=[7, 8])
    (table,) = built.paired_table(results)
    assert cell(table, "irand", "edits_shared").value == 1
    assert cell(table, "cfgnn", "edits_shared").value == 7
    assert "(1 graph, 2 methods)" in table.caption


def test_paired_table_without_a_graph_that_all_solve():
    (table,) = built.paired_table(made(irand__paper=[1, None], cfgnn__paper=[None, 1]))
    assert cell(table, "irand", "edits_shared").value is None
    assert cell(table, "irand", "validity_1").value == 0.5


def test_ablation_table(sweep):
    (table,) = built.ablation_table(sweep)
    assert [c.key for c in table.columns] == [
        "dataset", "edges-only", "gating", "freedom", "minimal", "cf-gnnexplainer",
    ]  # fmt: skip
    names = {"edges-only": "XPlore (paper, edges only)", "freedom": "XPlore (paper, freedom)", "minimal": "XPlore"}
    names["cf-gnnexplainer"] = "CF-GNNExplainer"
    papers = {"edges-only": 0.45745, "freedom": 0.67553, "minimal": 0.6755, "cf-gnnexplainer": 0.10106}
    row = {c.key: c_ for c, c_ in zip(table.columns, table.rows[1].cells, strict=True)}
    assert row["dataset"].value == "MUTAG"
    means = {k: values(sweep, "MUTAG", m, "validity").mean() for k, m in names.items()}
    for key, mean in means.items():
        assert row[key].value == pytest.approx(mean)
        assert row[key].paper == papers[key]
        assert row[key].mark == ("best" if mean == max(means.values()) else "")
    assert row["gating"].value is None
    assert table.caption.endswith("and CF-GNNExplainer; in the sweep: " + "; ".join(names.values()) + ".")


def test_an_ablation_needs_a_variant_of_the_paper():
    assert built.ablation_table(made(xplore__minimal=[1], cfgnn__paper=[1])) == []


def test_node_table_by_class():
    results = made(irand__paper=[2, 4, None, None, 6], cfgnn__paper=[1, 1, 1, None, 1], empty_graph__paper=[1] * 5)
    assert built.node_table(results) == []
    for frame in (results.instances,):
        frame["node"] = pd.array([7, 8, 9, 10, 11] * 3, dtype="Int64")
        frame["before"] = ["10", "2", "2", "2", "10"] * 3
    (table,) = built.node_table(results)

    def of(name, key, method="irand"):
        return cell(table, method, key, **{"class": name})

    assert [r.cells[1].value for r in table.rows][:4] == ["all", "2", "10", "mean over classes"]
    assert [of(c, "nodes").value for c in ("all", "2", "10")] == [5, 3, 2]
    assert of("all", "validity").value == pytest.approx(0.6)
    assert of("2", "validity").value == pytest.approx(1 / 3)
    assert of("10", "validity").value == 1
    assert of("mean over classes", "validity").value == pytest.approx((1 / 3 + 1) / 2)
    assert of("all", "ged").value == pytest.approx(4)
    assert of("mean over classes", "ged").value == pytest.approx((4 + 4) / 2)
    assert of("all", "validity").mark == "second"
    assert of("all", "validity", "cfgnn").mark == "best"
    assert of("mean over classes", "ged", "cfgnn").mark == "best"
    assert of("2", "validity", "cfgnn").mark == ""
    assert of("all", "validity", "empty_graph").mark == ""
    assert [r.control for r in table.rows] == [False] * 8 + [True] * 4


def test_failures_table(sweep):
    (table,) = built.failures_table(sweep)
    assert [[c.value for c in r.cells] for r in table.rows] == [
        ["MUTAG", "CF2", "0", "0", "ModelError: the model broke <b>here</b>"]
    ]
    assert "&lt;b&gt;here&lt;/b&gt;" in to_markdown([table])
    assert built.failures_table(made(irand__paper=[1])) == []


# -- every figure beside the paper's ----------------------------------------------------------------------------------


def test_paper_table_rows(sweep):
    rows = built.paper_table_rows(sweep)
    assert list(rows.columns) == [
        "dataset", "explainer", "preset", "metric", "ours", "ci_low", "ci_high", "graphs", "paper",
    ]  # fmt: skip
    assert set(rows["preset"]) == {"paper", "paper freedom", "minimal"}
    assert not rows.duplicated(["dataset", "explainer", "preset", "metric"]).any()
    asked = rows.set_index(["dataset", "explainer", "preset", "metric"])
    one = asked.loc[("MUTAG", "xplore", "paper freedom", "ged")]
    expected = values(sweep, "MUTAG", "XPlore (paper, freedom)", "ged")
    assert one["ours"] == pytest.approx(np.nanmean(expected))
    assert one["graphs"] == (~np.isnan(expected)).sum() < 30
    assert one["ci_low"] < one["ours"] < one["ci_high"]
    assert math.isnan(one["paper"])
    assert asked.loc[("MUTAG", "xplore", "paper", "validity")]["paper"] == 0.45745
    assert asked.loc[("MUTAG", "xplore", "minimal", "calls_forward")]["paper"] == pytest.approx(
        asked.loc[("MUTAG", "xplore", "paper freedom", "calls_forward")]["paper"]
    )
    failed = asked.loc[("MUTAG", "cf2", "paper", "validity")]
    assert math.isnan(failed["ours"])
    assert (failed["graphs"], failed["paper"]) == (0, 0)


def test_methods_with_other_options_go_by_their_names(sweep):
    jobs, instances = sweep.jobs.copy(), sweep.instances.copy()
    for frame in (jobs, instances):
        frame.loc[frame["method"] == "iRand", "explainer"] = "cfgnn"
        frame.loc[frame["method"] == "iRand", "method"] = "CF-GNNExplainer (lr=1)"
    rows = built.paper_table_rows(replace(sweep, jobs=jobs, instances=instances))
    assert set(rows[rows["explainer"] == "cfgnn"]["preset"]) == {"CF-GNNExplainer", "CF-GNNExplainer (lr=1)"}


# -- files ------------------------------------------------------------------------------------------------------------


def test_write_tables(sweep, tmp_path):
    paths = built.write_tables(sweep, tmp_path)
    names = {str(p.relative_to(tmp_path)) for p in paths}
    kinds = ("main", "extended", "paired", "ablation", "failures")
    assert names == {f"tables/{k}.{e}" for k in kinds for e in ("md", "tex", "csv")} | {"tables/paper_table.csv"}
    assert {p.name for p in (tmp_path / "tables").iterdir()} == {p.name for p in paths}
    for path in paths:
        if path.suffix == ".tex":
            latex_is_sound(path.read_text(encoding="utf-8"))
    main = pd.read_csv(tmp_path / "tables" / "main.csv", keep_default_na=False, dtype=str)
    (row,) = main[(main["metric"] == "validity") & (main["method"] == "iRand") & (main["dataset"] == "BZR")].to_dict(
        "records"
    )
    assert float(row["value"]) == pytest.approx(values(sweep, "BZR", "iRand", "validity").mean(), abs=1e-15)
    lines = (tmp_path / "tables" / "paper_table.csv").read_text().splitlines()
    assert "MUTAG,cf2,paper,validity,,,,0,0.0" in lines


LATEX = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{booktabs}
\usepackage[margin=2cm]{geometry}
\begin{document}
%s
\end{document}
"""


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here (Debian: texlive-latex-recommended)")
def test_latex_compiles_and_fits_the_page(sweep, tmp_path):
    paths = built.write_tables(sweep, tmp_path, "latex")
    inputs = [rf"\input{{tables/{p.name}}}\clearpage" for p in paths if p.suffix == ".tex"]
    (tmp_path / "all.tex").write_text(LATEX % "\n".join([*inputs, to_latex([nasty()])]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
    assert len(inputs) == 5
    assert "Float too large" not in run.stdout
    assert "Overfull" not in run.stdout


def test_the_same_results_give_the_same_bytes_and_seconds_can_be_left_out(sweep, tmp_path):
    slower = replace(sweep, instances=sweep.instances.assign(runtime=sweep.instances["runtime"] * 1.7))
    runs = {
        "a": (sweep, True),
        "b": (collected(), True),
        "c": (sweep, False),
        "d": (slower, False),
        "e": (slower, True),
    }
    read = {}
    for name, (results, timings) in runs.items():
        paths = built.write_tables(results, tmp_path / name, timings=timings)
        read[name] = {p.name: p.read_bytes() for p in paths}
    assert read["a"] == read["b"]
    assert read["c"] == read["d"]
    assert read["a"] != read["e"]


def test_a_table_that_is_empty_now_leaves_no_file_of_before(sweep, tmp_path):
    built.write_tables(sweep, tmp_path)
    (tmp_path / "tables" / "notes.md").write_text("mine")
    again = built.write_tables(made(irand__paper=[1]), tmp_path, ["md"])
    assert [p.name for p in again] == ["main.md", "extended.md", "paired.md"]
    left = {p.name for p in (tmp_path / "tables").iterdir()}
    assert "failures.md" not in left
    assert {"failures.csv", "notes.md"} <= left


def test_formats_are_checked_before_anything_is_written(sweep, tmp_path):
    with pytest.raises(InputError, match="unknown format of tables 'html'"):
        built.write_tables(sweep, tmp_path / "out", ("md", "html"))
    assert not (tmp_path / "out").exists()


def test_a_sweep_of_failures_alone_has_one_table(tmp_path):
    results = made(irand__paper=[1], cf2__paper="failed")
    results = Collected(
        results.jobs.iloc[1:], results.instances.iloc[:0][["dataset", "method", "seed", "graph", "found"]]
    )
    assert [p.name for p in built.write_tables(results, tmp_path, ["md"])] == ["failures.md"]
