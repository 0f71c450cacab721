"""Why a plan is what it is: parts that sum, changes that hold, hand arithmetic that agrees."""

import pytest
from small import DENSE, engine_of, planner, study_of

from planner.explain.plan import explain_plan, nearest_change, one_change
from planner.space.blocks import bills
from planner.space.plan_keys import plan_key, plan_name
from planner.study.settings import with_settings
from planner.training.engine import catalogue_names, prepare

TOTALS = {
    "step_s": "step_s", "resident_bytes": "resident_bytes", "it_w": "it_mean_w",
    "capex_usd": "capex_usd", "usd_per_year": "usd_per_year", "usd": "usd",
    "embodied_kgco2e": "embodied_kgco2e",
    "failures_per_day": "failures_per_day",
}  # fmt: skip
"""Ledger to the metric it explains."""


@pytest.fixture(scope="module")
def explained(workspace):
    """The plan of every row of the front, explained."""
    rows = workspace.documents[0]["front"]
    words = ("--db", workspace.db, "--json")
    return [
        (row, planner("explain", "1", place, *words).document)
        for place, row in enumerate(rows, start=1)
    ]


def test_every_ledger_sums_to_its_total_and_to_the_metric(explained):
    """The parts shown would not be the parts of the figure beside them (SimAI#90)."""
    for _, document in explained:
        assert set(document["ledgers"]) == set(TOTALS)
        for name, ledger in document["ledgers"].items():
            total = sum(ledger["terms"].values())
            assert ledger["total"] == pytest.approx(total, rel=1e-9)
            assert document["metrics"][TOTALS[name]] == pytest.approx(total, rel=1e-9)
            assert ledger["unit"]


def test_the_explanation_is_of_the_stored_plan(explained):
    """Another plan would be explained than the one on the front."""
    for row, document in explained:
        assert document["plan"] == row["plan"]
        assert document["metrics"]["site"] == row["site"]
        for name, value in document["axes"].items():
            assert row[name] == value
        for name, value in document["metrics"].items():
            if isinstance(value, str) or value is None:
                assert row[name] == value
            else:
                assert row[name] == pytest.approx(value, rel=1e-9), name


def test_what_binds_is_the_largest_part(explained):
    """The advice would point at the wrong part."""
    for _, document in explained:
        for name, words in document["binds"].items():
            terms = document["ledgers"][name]["terms"]
            largest = max(terms, key=lambda term, terms=terms: terms[term])
            assert words.startswith(f"{largest} (")


def test_every_change_is_what_that_plan_evaluates_to(explained, workspace):
    """The table of changes would promise what the changed plan does not keep."""
    row, document = explained[0]
    lines = document["one_change"]
    site = f"costing.site={row['site']}"
    engine = prepare(with_settings(study_of(DENSE), [site], catalogue_names()))
    assert {line["axis"] for line in lines} >= {
        "accelerator", "devices", "tensor_parallel", "pipeline_parallel", "zero_stage",
        "micro_batch_sequences", "recompute",
    }  # fmt: skip
    assert any(line["feasible"] for line in lines)
    assert any("memory: has" in line["why_not"] for line in lines)
    for line in lines:
        assert line["plan"] != document["plan"]
        assert line["from"] == row[line["axis"]]
        if not line["objectives"]:
            continue
        fresh = explain_plan(engine, plan_key(line["plan"]))
        assert fresh.axes[line["axis"]] == line["to"]
        assert fresh.is_feasible == line["feasible"]
        for name, told in line["objectives"].items():
            assert told["value"] == pytest.approx(fresh.metrics[name], rel=1e-9)
            assert told["change_frac"] == pytest.approx(told["value"] / row[name] - 1, abs=1e-9)


def test_the_napkin_is_within_a_factor_of_two(explained):
    """A slip of a factor would stand beside its own refutation without anybody noticing."""
    for _, document in explained:
        for name in ("days", "energy_usd", "usd"):
            line = document["napkin"][name]
            assert 0.5 < line["plan"] / line["napkin"] < 2, name
            assert line["how"]


def test_the_napkin_is_hand_arithmetic(explained):
    """The check would be computed by what it checks."""
    row, document = explained[0]
    napkin = document["napkin"]
    active = 8.030e9 - 128_256 * 4_096  # Llama 3.1 8B without its input embedding
    seconds = 6 * active * 1e12 / (row["devices"] * 989.4e12 * row["mfu_frac"])
    days = seconds / row["goodput_frac"] / 86_400
    assert napkin["days"]["napkin"] == pytest.approx(days, rel=2e-3)
    assert napkin["days"]["plan"] > napkin["days"]["napkin"], "attention is not on the napkin"
    state = napkin["state_bytes_per_device"]
    assert state["napkin"] == pytest.approx(18 * 8.030e9 / row["devices"], rel=1e-3)
    assert state["plan"] > state["napkin"]


def test_the_text_shows_parts_shares_and_changes(workspace):
    """A person at a terminal would get less than a script."""
    text = " ".join(planner("explain", "1", "1", "--db", workspace.db).out.split())
    words = ("step_s [s]: most is gemm", "resident_bytes [B]", "usd [USD]", "napkin check",
             "one change on each axis", "embodied_kgco2e [kgCO2e]")  # fmt: skip
    assert [word for word in words if word not in text] == []


@pytest.mark.long
def test_a_plan_by_place_or_name_and_no_other(workspace):
    """A wrong name would end in a traceback, or explain some other plan."""
    row = workspace.documents[0]["front"][1]
    words = ("--db", workspace.db, "--json")
    by_place = planner("explain", "1", "2", *words).document
    assert planner("explain", "1", row["plan"], *words).document["plan"] == by_place["plan"]
    for name in ("0", "999", "pzzzz", "foo", "p", "P1", ""):
        answer = planner("explain", "1", name, *words)
        assert answer.code == 2, name
        assert "plan" in answer.err
        assert answer.out == "" or answer.document["exit_code"] == answer.code


@pytest.mark.long
def test_places_are_those_of_the_table_that_a_person_sees(workspace, tmp_path):
    """A person would read the first line and have another plan explained."""
    text = planner("show", "1", "--db", workspace.db).out
    lines = text[text.index("\nplan ") :].splitlines()[3:]
    front = workspace.documents[0]["front"]
    assert [line.split()[0] for line in lines[: len(front)]] == [row["plan"] for row in front]
    assert [row["days"] for row in front] == sorted(row["days"] for row in front)
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(DENSE + '[objectives]\nminimise = ["kgco2e"]\nmaximise = ["mfu_frac"]\n')
    words = ("--db", db, "--workers", 1, "--json")
    document = planner("run", study, *words, "--set", "devices=[64,32]").document
    emitted = [row["kgco2e"] for row in document["front"]]
    assert emitted == sorted(emitted)
    first = planner("explain", "last", "1", "--db", db, "--json").document
    assert first["plan"] == document["front"][0]["plan"]


def test_a_dominated_plan_can_be_explained_too(workspace, dense):
    """A person could not ask why his favourite is not on the front."""
    front = {row["plan"] for row in workspace.documents[0]["front"]}
    keys = [a["key"] for a in dense.alone if a["feasible"]]
    name = next(plan_name(key) for key in keys if plan_name(key) not in front)
    document = planner("explain", "1", name, "--db", workspace.db, "--json").document
    assert document["plan"] == name


def test_zero_is_the_best_value_of_an_objective_not_a_missing_one():
    """Of all changes the one without a stranded device would come last."""
    engine = engine_of(
        DENSE.replace("days = 90", "days = 5") + '[objectives]\nminimise = ["stranded_devices"]\n'
    )
    study = with_settings(
        engine.study,
        ["accelerator=H100-SXM", "devices=[12,400,256]", "tp=1", "pp=1", "mbs=1", "gbs=1200",
         "zero_stage=3", "limits.days=4", "recompute=none"],
        catalogue_names(),
    )  # fmt: skip
    engine = prepare(study)
    first = next(iter(bills(engine.space)))
    lines = {line["to"]: line for line in one_change(engine, first.key)}
    assert lines[400]["feasible"]
    assert lines[400]["objectives"]["stranded_devices"]["value"] == 0
    assert nearest_change(engine, first.key)["to"] == 400
