"""What a study says of failures reaches dates, spares and money; no date from unknown rates."""

import re

import pytest
from small import DENSE, MOE, ROOT, engine_of, planner, study_of, with_lines

from planner.documents.answers import evaluate_study
from planner.study.settings import with_settings
from simkernel.errors import BadStudy

PLAN = ("tp=1", "pp=1", "mbs=1", "devices=64", "accelerator=H100-SXM", "costing.site=us-tx")


@pytest.fixture(scope="module")
def evaluated():
    """evaluated(*settings): the document of one plan of the small study."""
    study = study_of(DENSE)
    return lambda *words: evaluate_study(with_settings(study, [*PLAN, *words]))


def test_failures_a_day_sum_to_the_rate_that_the_date_rests_on(evaluated):
    """The ledger of causes would explain another date than the one that is given."""
    found = evaluated()
    ledger, metrics = found["ledgers"]["failures_per_day"], found["metrics"]
    assert set(ledger["terms"]) >= {"gpu", "hbm", "nic", "link", "switch", "host", "power"}
    assert metrics["job_mtbf_h"] == pytest.approx(24 / ledger["total"], rel=1e-12)
    assert metrics["days_p10"] < metrics["days_p50"] < metrics["days_p90"]
    assert metrics["days_p50"] == pytest.approx(metrics["days"], rel=0.01)


def test_a_rate_of_failures_of_ones_own_takes_the_place_of_all_components(evaluated):
    """A measured rate would be added to the table's, or change nothing."""
    worse, better = (evaluated(f"reliability.device_mtbf_h={h}.0") for h in (5_000, 500_000))
    assert worse["metrics"]["job_mtbf_h"] == pytest.approx(5_000 / 64)
    assert worse["metrics"]["days"] > better["metrics"]["days"]
    assert worse["metrics"]["usd"] > better["metrics"]["usd"]
    assert not any(name.startswith("failures.") for name in worse["facts_used"])


def test_checkpoints_follow_the_storage_and_whether_they_are_waited_for(evaluated):
    """8.03e9 parameters at 14 bytes over 1 GB/s are 112.4 s, of which the background hides all."""
    slow = evaluated("reliability.storage_gbytes_per_s=1.0")["metrics"]
    hidden = evaluated(
        "reliability.storage_gbytes_per_s=1.0", "reliability.checkpoint=background"
    )["metrics"]
    assert slow["checkpoint_s"] == pytest.approx(6.3 + 112.4, rel=1e-3)
    assert hidden["checkpoint_s"] == 6.3
    assert slow["recovery_s"] == hidden["recovery_s"] == pytest.approx(300 + 112.4, rel=1e-3)
    assert hidden["goodput_frac"] > slow["goodput_frac"]
    assert evaluated("reliability.checkpoint_s=60.0")["metrics"]["checkpoint_s"] == 60


def test_more_certain_spares_are_more_spares(evaluated):
    """Hosts would be missing in half of all hours although the study asks for them in 99.9%."""
    usual = evaluated("reliability.repair_h=72.0")
    sure = evaluated("reliability.repair_h=72.0", "reliability.spare_coverage_frac=0.9999")
    none = evaluated("reliability.repair_h=0.0")
    counts = [one["metrics"]["purchase_units"] for one in (none, usual, sure)]
    assert counts == [8, 9, 11]  # Poisson of mean 0.0909: two cover 99.988% of the time
    assert sure["metrics"]["usd"] > usual["metrics"]["usd"] > none["metrics"]["usd"]


def test_a_spare_host_in_the_domain_spares_the_domain():
    """Racks of which 64 of 72 devices work have two hosts ready; domains of two hosts have none.

    8,192 devices have four hosts under repair: four stranded ones stand in for four, not for
    eight.
    """
    study = study_of(MOE)
    plan = (
        "accelerator=GB200",
        "devices=8192",
        "tp=1",
        "pp=1",
        "ep=8",
        "zero_stage=1",
        "gbs=8192",
        "reliability.device_mtbf_h=50677.0",
    )

    def units(*settings):
        found = evaluate_study(with_settings(study, [*plan, *settings]))
        return found["metrics"]["purchase_units"]

    whole = "reliability.replaced=supernode"
    rack, pair = "supernode_devices=72", "supernode_devices=8"
    assert (units(rack), units(rack, whole)) == (128, 128)
    assert (units(pair), units(pair, whole)) == (114, 115)


@pytest.mark.long
def test_an_unknown_rate_gives_what_a_plan_needs_and_no_date(evaluated):
    """A guess would stand where a buyer has to ask the maker."""
    limit = "limits.days=20.0"
    found = evaluated("reliability.device_mtbf_h=unknown", limit)
    assert not found["feasible"]
    assert [v["limit"] for v in found["violations"]] == ["days", "missing_fact"]
    assert found["violations"][0]["have"] is None
    assert found["metrics"]["days"] is None
    assert "fail" in found["null_reasons"]["days"]
    assert "usd" not in found["metrics"]
    need = found["breakeven"]
    for recovery, least in zip(need["recovery_s"], need["least_device_mtbf_h"], strict=True):
        kept, missed = (
            evaluated(
                f"reliability.device_mtbf_h={least * scale}",
                f"reliability.recovery_s={recovery}",
                limit,
            )
            for scale in (1.0001, 0.9999)
        )
        assert kept["metrics"]["days"] <= 20 < missed["metrics"]["days"]
    same = evaluated("reliability.device_mtbf_h=50000.0", "reliability.recovery_s=300.0")
    at = need["device_mtbf_h"].index(50_000), need["recovery_s"].index(300)
    assert need["days"][at[0]][at[1]] == pytest.approx(same["metrics"]["days"], rel=1e-12)


def test_nothing_is_searched_where_no_date_can_be_given(tmp_path):
    """A front would be drawn of plans whose days and dollars nobody knows."""
    study = tmp_path / "unknown.toml"
    study.write_text(DENSE + '\n[reliability]\ndevice_mtbf_h = "unknown"\n')
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--json")
    assert answer.code == 3
    assert "planner evaluate" in answer.err


def test_a_pinned_goodput_asks_nothing_of_failures(evaluated):
    """Causes of failures would be listed that the date does not rest on."""
    found = evaluated("pin.goodput_frac=0.9", "reliability.device_mtbf_h=unknown")
    assert found["metrics"]["goodput_frac"] == 0.9
    assert "failures_per_day" not in found["ledgers"]
    assert "days_p90" not in found["metrics"]
    ignored = ("recovery_s=30.0", "checkpoint_s=5.0", "checkpoint=background")
    with pytest.raises(BadStudy) as told:
        evaluated("pin.goodput_frac=0.9", *(f"reliability.{word}" for word in ignored))
    assert len(told.value.faults) == 3
    assert all("pin.goodput_frac already says" in fault for fault in told.value.faults)


def test_a_run_that_never_saves_anything_is_none(evaluated):
    """A plan of a million years would be feasible where nobody gave a limit on days."""
    often = ("device_mtbf_h=10.0", "recovery_s=20000.0", "checkpoint_s=300.0", "repair_h=0.0")
    settings = (f"reliability.{word}" for word in often)
    found = evaluated("devices=512", *settings, "limits.days=1e9")
    (broken,) = (v for v in found["violations"] if v["limit"] == "useful_time")
    assert broken["have"] < broken["need"] == 0.01
    assert not {v["limit"] for v in evaluated()["violations"]} & {"useful_time"}


def test_a_date_that_nine_runs_of_ten_keep_can_be_the_limit(evaluated):
    """Whoever promises a date would have to promise the mean."""
    days = evaluated()["metrics"]
    between = (days["days_p50"] + days["days_p90"]) / 2
    found = evaluated("limits.days=1000.0", f"limits.days_p90={between}")
    assert [v["limit"] for v in found["violations"]] == ["days_p90"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            with_lines(DENSE, seed="seed = 1") + '[reliability]\ncheckpoint = "tape"\n',
            "background",
        ),
        (DENSE + "[reliability]\nspare_coverage_frac = 1.0\n", "below 1"),
        (DENSE + '[reliability]\ndevice_mtbf_h = "often"\n', "unknown"),
        (DENSE + "[reliability]\nmtbf_h = 4.0\n", "device_mtbf_h"),
        (DENSE + "[reliability]\ndevice_mtbf_h = 0.01\n", "at least 10"),
    ],
)
def test_what_no_machine_can_have_is_refused(text, told):
    """A slip would be computed with."""
    with pytest.raises(BadStudy, match=told):
        engine_of(text)


def test_what_the_page_on_sites_shows_is_a_study(evaluated):
    """A reader would copy keys that are refused."""
    page = (ROOT / "docs" / "FACILITY.md").read_text(encoding="utf-8")
    failures, costing = re.findall(r"```toml\n(.*?)```", page, flags=re.S)
    hours, tiers = costing.split("energy_tiers")
    rest = tiers.split("   # instead of hours")[1]
    text = with_lines(DENSE, site=f'site = ["us-tx"]\n{hours}{rest}')
    study = study_of(text.replace("[limits]", f"{failures}\n[limits]"))
    assert study.reliability.spare_coverage_frac == 0.99
    assert [s.behind_the_meter for s in study.costing.sources] == [False, True]
    assert len(study.costing.grid_cfe_by_hour) == 24


@pytest.mark.long
def test_failures_are_simulated_and_not_priced(tmp_path):
    """Spares would follow a new repair time, and days and goodput the old one."""
    db = tmp_path / "x.duckdb"
    study = tmp_path / "one.toml"
    study.write_text(with_lines(DENSE, accelerator='accelerator = ["H100-SXM"]'))
    assert planner("run", study, "--db", db, "--json").code == 0
    answer = planner("recost", "1", "--set", "reliability.repair_h=0", "--db", db)
    assert answer.code == 2
    assert "reliability.repair_h changes what was simulated" in answer.err
