"""The command as a person or a script types it: what it prints, where, and how it leaves."""

import json
import sys
import time

import pytest
from small import DENSE, ROOT, ended, planner, planner_process, study_of, with_lines

from planner import cli
from planner.axes import axes_of
from planner.documents import answers as commands
from planner.study.written import study_from_json, study_sha256

CONFIGS = ROOT / "costdata" / "tables" / "models"


def test_help_comes_at_once_and_names_every_command(tmp_path):
    """A person would wait for libraries to load before reading one line."""
    started = time.perf_counter()
    answer = ended(planner_process(tmp_path, "--help"))
    assert time.perf_counter() - started < 2
    assert answer.code == 0
    for name in ("run", "stop", "runs", "show", "explain", "diff", "evaluate", "catalog"):
        assert f" {name} " in answer.out


@pytest.mark.parametrize("command", ["run", "runs", "show", "explain", "evaluate", "diff", "stop"])
def test_every_command_has_help(command):
    """A person would have to guess the words of a command."""
    answer = planner(command, "--help")
    assert answer.code == 0
    assert "Usage" in answer.out


@pytest.mark.long
def test_json_is_the_only_thing_on_stdout(workspace):
    """A script would read a table or a warning as data."""
    words = ("--db", workspace.db, "--json")
    for command in (("runs",), ("show", "1"), ("explain", "1", "1"), ("diff", "1", "2")):
        answer = planner(*command, *words)
        assert answer.out.count("\n") == 1
        assert answer.err == ""
        assert answer.document


@pytest.mark.long
@pytest.mark.parametrize("words", [("run",), ("evaluate", "--set", "zero_stage=3")])
def test_a_person_gets_text(tmp_path, words):
    """A person at a terminal would get JSON, or nothing."""
    study = tmp_path / "x.toml"
    study.write_text(with_lines(DENSE, accelerator='accelerator = "H100-SXM"'))
    command, *rest = words
    db = ("--db", tmp_path / "x.duckdb", "--workers", 1) if command == "run" else ()
    answer = planner(command, study, *rest, *db)
    assert answer.code == 0
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.out)
    assert "H100-SXM" in answer.out
    assert "days" in answer.out


@pytest.mark.long
def test_nothing_feasible_leaves_with_one_and_names_limits_and_the_nearest(tmp_path):
    """An empty list would be the whole answer (optuna#6242)."""
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(with_lines(DENSE, days="days = 1"))
    answer = planner("run", study, "--db", db, "--workers", 1, "--json")
    assert answer.code == 1
    document = answer.document
    assert document["front"] == []
    assert document["rejected"]["days"] == document["candidates"]["evaluated"] > 0
    plans = document["nearest"]["plans"]
    assert 1 <= len(plans) <= 10
    fastest = plans[0]
    assert fastest["binding"] == "days"
    assert fastest["worst_excess"] == pytest.approx(fastest["days"] / 1 - 1)
    assert [p["worst_excess"] for p in plans] == sorted(p["worst_excess"] for p in plans)
    text = planner("show", "last", "--db", db)
    assert text.code == 0, "showing an empty answer is not a failure"
    assert "Nothing is feasible." in text.out
    assert f"nearest: {fastest['plan']} on 64 H100-SXM is " in text.out
    assert "beyond days" in text.out


@pytest.mark.long
def test_money_alone_can_forbid_everything_and_the_nearest_is_told(tmp_path):
    """Only physical limits would have a nearest plan."""
    study, db = tmp_path / "x.toml", tmp_path / "x.duckdb"
    study.write_text(with_lines(DENSE, days="usd = 1000"))
    answer = planner("run", study, "--db", db, "--workers", 1, "--json")
    assert answer.code == 1
    document = answer.document
    assert document["physical_front"] > 0
    assert document["rejected"]["usd"] == document["physical_front"] * 3
    nearest = document["nearest"]["plans"][0]
    assert nearest["binding"] == "usd"
    assert nearest["usd"] == pytest.approx(1000 * (1 + nearest["worst_excess"]))
    assert nearest["site"] in ("us-tx", "se", "cn-west")


def test_rules_that_leave_no_candidate_are_named(tmp_path):
    """A space that is empty from the start would look like a limit that is too hard."""
    study = tmp_path / "x.toml"
    study.write_text(with_lines(DENSE, tensor_parallel="tensor_parallel = [3, 5]"))
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--workers", 1, "--json")
    assert answer.code == 1
    counts = answer.document["candidates"]
    assert counts["evaluated"] == 0
    assert counts["masked"] == {"tensor_parallel_does_not_divide_heads": counts["enumerated"]}


def test_a_study_is_shown_with_every_default(tmp_path):
    """A person could not see what was assumed for what was left out."""
    study = tmp_path / "x.toml"
    study.write_text(DENSE)
    document = planner("show", study, "--json").document
    names = {axis.name for axis in axes_of("train")} - {"nodes", "supernodes"}
    assert set(document["axes"]) == names
    assert document["axes"]["precision"] == ["bf16"]
    assert document["space"] == {"enumerated": 128, "bills": 4}
    text = planner("show", study).out
    assert "placement = " in text
    assert "max_global_batch_tokens" in text


def test_a_shown_study_reads_back_as_the_same_study(tmp_path):
    """What show prints would not be what run does."""
    study = tmp_path / "x.toml"
    study.write_text(DENSE)

    document = planner("show", study, "--json").document
    again = study_from_json(json.dumps(document))
    assert study_sha256(again) == study_sha256(study_of(DENSE))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("H100-SXM", "kind", "accelerator"),
        ("H100", "name", "H100-SXM"),
        ("se", "kind", "site"),
        ("HGX/DGX-H100", "kind", "server"),
        ("deepseek-v3", "parameters", 671_026_419_200.0),
        ("deepseek-ai--DeepSeek-V3", "kv_bytes_per_token_bf16", 70_272.0),
        (CONFIGS / "Qwen--Qwen3-8B" / "config.json", "kv_bytes_per_token_bf16", 147_456.0),
    ],
)
def test_the_catalogue_shows_chips_sites_servers_models_and_files(name, key, value):
    """A person could not see the facts that a plan rests on."""
    document = planner("catalog", "show", name, "--json").document
    assert document[key] == value
    assert planner("catalog", "show", name).out.strip()
    for fact in document.get("facts", {}).values():
        assert {"value", "unit", "source", "as_of", "grade"} <= set(fact)


def test_the_catalogue_lists_everything_or_one_kind():
    """A person would not find the name to write in a study."""
    entries = planner("catalog", "list", "--json").document["entries"]
    kinds = {entry["kind"] for entry in entries}
    assert {
        "accelerator",
        "site",
        "server",
        "model",
        "part",
        "embodied",
        "facility",
        "trace",
    } <= kinds
    chips = planner("catalog", "list", "accelerator", "--json").document["entries"]
    assert len(chips) == 45
    assert {entry["kind"] for entry in chips} == {"accelerator"}
    assert "H100-SXM" in planner("catalog", "list").out
    assert len({e["name"] for e in entries if e["kind"] == "site"}) >= 70


def test_the_shipped_tables_have_no_fault(tmp_path):
    """Facts that lint refuses of others would be in our own tables."""
    answer = planner("catalog", "lint", "--json")
    assert (answer.code, answer.document["faults"]) == (0, [])
    (tmp_path / "regions.csv").write_text("name,usd_per_kwh\nhere,80\n")
    answer = planner("catalog", "lint", tmp_path, "--json")
    assert answer.code == 2
    assert answer.document["faults"]


def test_an_old_price_is_said_by_lint_and_refuses_nothing(tmp_path):
    """A price of three years ago would be ordered by as if it were of today."""
    price = (
        "name=mine/rent", "provider=mine", "instance=box", "accelerator=H100-SXM", "devices=8",
        "region=here", "plan=on_demand", "usd_per_device_hour=2.5", "source=own quote",
        "grade=vendor", "licence=own",
    )  # fmt: skip
    words = ("catalog", "add", "cloud_prices", *price, "--to", tmp_path)
    assert planner(*words, "as_of=2019-05").code == 0
    answer = planner("catalog", "lint", tmp_path, "--json")
    assert (answer.code, answer.document["faults"]) == (0, [])
    assert "usd_per_device_hour is of 2019-05" in answer.document["warnings"][0]
    assert "warning: cloud_prices.csv" in planner("catalog", "lint", tmp_path).out


SITE = (
    "name=here", "title=Here", "kind=site", "country=SWE", "usd_per_kwh=0.05", "pue=1.2",
    "grid_average_kgco2e_per_kwh=0.02", "source=own meter", "as_of=2026-01", "grade=measured",
    "licence=own",
)  # fmt: skip


def test_a_row_of_ones_own_is_added_shown_and_used(tmp_path):
    """A user's own site could not be planned for."""
    own = tmp_path / "own"
    refused = planner("catalog", "add", "site", "name=here", "--to", own, "--json")
    assert refused.code == 2
    assert refused.err.count("error: ") > 3
    assert refused.document["exit_code"] == refused.code
    assert not own.exists()
    added = planner("catalog", "add", "site", *SITE, "--to", own, "--json")
    assert added.code == 0, added.err
    assert str(own) in added.document["written"]
    shown = planner("catalog", "show", "here", "--overlay", own, "--json").document
    assert shown["is_user"]
    assert planner("catalog", "show", "here").code == 2
    study = tmp_path / "x.toml"
    study.write_text(
        DENSE.replace('"us-tx", "se", "cn-west"', '"here"').replace(
            "seed = 1", f'seed = 1\ntables = "{own}"'
        )
    )
    answer = planner("evaluate", study, "--set", "devices=64", "--set", "recompute=selective",
                     "--json")  # fmt: skip
    assert answer.code == 0, answer.err
    metrics = answer.document["metrics"]
    assert metrics["site"] == "here"
    assert metrics["facility_mean_w"] == pytest.approx(1.2 * metrics["it_mean_w"])


def test_a_fault_of_ours_leaves_with_four_and_no_traceback(monkeypatch, capsys):
    """A person would be shown our insides and take the blame."""

    def broken(db):
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr(commands, "runs", broken)
    monkeypatch.setattr(sys, "argv", ["planner", "runs"])
    monkeypatch.delenv("PLANNER_TRACE", raising=False)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 4
    said = capsys.readouterr()
    assert "internal error: ZeroDivisionError: deep inside" in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    monkeypatch.setenv("PLANNER_TRACE", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_an_interrupted_command_is_not_an_answer(monkeypatch):
    """Exit code 1 would tell a script that nothing is feasible."""

    def interrupted(db):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "runs", interrupted)
    answer = planner("runs")
    assert answer.code == 130
    assert answer.err == "interrupted\n"


def test_a_trace_of_ones_own_can_be_looked_at_before_it_is_planned_for(tmp_path):
    """A plan would rest on a file that was read in another unit or order."""
    file = tmp_path / "mine.csv"
    rows = [f"{1_700_000_000_000 + 250 * i},{100 + i % 2},7" for i in range(80, -1, -1)]
    file.write_text("timestamp,input_length,output_length\n" + "\n".join(rows))
    found = planner("catalog", "show", str(file), "--json").document
    assert (found["format"], found["requests"], found["is_shuffled"]) == ("mooncake", 81, True)
    assert "ms since 1970" in found["times"]
    assert found["requests_per_s"] == pytest.approx(4.0)
    assert found["busiest_minute_over_mean"] == pytest.approx(1.0)
    assert found["index_of_dispersion"].keys() == {"1 s"}
    assert found["prompt_tokens"]["max"] == 101


def test_a_trace_that_ships_is_shown_with_its_load_and_its_sources():
    """A user would have to replay a trace to see how bursty it is."""
    found = planner("catalog", "show", "mooncake_synthetic", "--json").document
    assert found["facts"]["requests"]["licence"] == "Apache-2.0"
    assert found["requests"] == 3993
    assert found["index_of_dispersion"]["10 s"] == pytest.approx(1.0, abs=0.35)  # Poisson
    assert 0.4 < found["repeated_prefix_frac"] < 0.9
