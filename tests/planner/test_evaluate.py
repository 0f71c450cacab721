"""One candidate: what it has and needs, the change that saves it, and no knob without effect."""

import pytest
from small import DENSE, MOE, planner, with_lines

from planner.axes import AXES, DEFAULT_SCHEDULE, axes_of

KEYS = {
    "feasible",
    "violations",
    "nearest",
    "metrics",
    "ledgers",
    "facts_used",
    "unverified_facts",
}
ONE = with_lines(
    DENSE,
    accelerator='accelerator = "H100-SXM"',
    devices="devices = 64",
    tensor_parallel="tensor_parallel = 2",
    pipeline_parallel="pipeline_parallel = 1",
    micro_batch_sequences="micro_batch_sequences = 1",
    recompute='recompute = "none"',
    zero_stage="zero_stage = 1",
).replace('site = ["us-tx", "se", "cn-west"]', 'site = "us-tx"')


@pytest.fixture
def study(tmp_path):
    """A study of one candidate, which fits."""
    path = tmp_path / "one.toml"
    path.write_text(ONE)
    return path


@pytest.fixture
def experts(tmp_path):
    """A study of one candidate with experts, which fits."""
    path = tmp_path / "moe.toml"
    text = with_lines(MOE, accelerator='accelerator = "H100-SXM"', devices="devices = 128")
    path.write_text(text)
    return path


def evaluated(study, *settings):
    """Exit code and document of `planner evaluate --json`."""
    words = [word for setting in settings for word in ("--set", setting)]
    answer = planner("evaluate", study, *words, "--json")
    assert answer.code in (0, 1), answer.err
    document = answer.document
    assert document["feasible"] == (answer.code == 0)
    return document


def test_a_feasible_candidate_is_told_whole(study):
    """Scripts of users would break."""
    document = evaluated(study)
    assert set(document) >= KEYS
    assert document["feasible"]
    assert document["violations"] == []
    assert document["nearest"] == {}
    assert document["taken"] == {}
    assert {"step_s", "resident_bytes", "it_w", "capex_usd", "usd"} <= set(document["ledgers"])
    assert set(document["unverified_facts"]) <= set(document["facts_used"])
    assert len(document["unverified_facts"]) == document["metrics"]["unverified_facts"] > 0
    for fact in document["facts_used"].values():
        assert {"value", "unit", "source", "as_of", "grade", "verified"} <= set(fact)


BROKEN = {
    "memory": ("zero_stage=0", "tp=1"),
    "days": ("limits.days=12",),
    "global_batch_tokens": ("gbs=8192",),
    "peak_facility_mw": ("limits.peak_facility_mw=0.06",),
    "usd": ("limits.usd=40000",),
    "kgco2e": ("limits.kgco2e=3000",),
    "days_high": ("limits.days_high=18",),
    "tokens_per_s": ("limits.tokens_per_s=1e6",),
    "mfu_frac": ("limits.mfu_frac=0.65",),
    "water_l": ("limits.water_l=10",),
}


@pytest.mark.parametrize("limit", BROKEN)
def test_each_limit_is_told_with_what_is_had_and_needed(study, limit):
    """A person would know that it does not fit, not by how much or of what."""
    document = evaluated(study, *BROKEN[limit])
    assert not document["feasible"]
    lines = {line["limit"]: line for line in document["violations"]}
    line, metrics = lines[limit], document["metrics"]
    assert set(line) == {"limit", "have", "need", "unit"}
    at_least = limit in ("tokens_per_s", "mfu_frac")
    assert line["have"] < line["need"] if at_least else line["have"] > line["need"]
    expected = {
        "memory": metrics["resident_bytes"],
        "global_batch_tokens": 8192 * 8192,
    }.get(limit, metrics.get(limit))
    assert line["have"] == pytest.approx(expected, rel=1e-12)
    assert line["unit"] or limit == "mfu_frac"


@pytest.mark.parametrize("limit", BROKEN)
def test_the_nearest_change_is_feasible_when_it_is_made(study, limit):
    """The advice would be wrong, and cost a person another try."""
    document = evaluated(study, *BROKEN[limit])
    change = document["nearest"]
    if limit in ("memory", "days", "global_batch_tokens", "peak_facility_mw", "days_high"):
        assert change, "one of the single changes must do here"
    if not change:
        return
    applied = evaluated(study, *BROKEN[limit], f"{change['axis']}={change['to']}")
    assert applied["feasible"]
    for name, told in change["objectives"].items():
        assert applied["metrics"][name] == pytest.approx(told["value"], rel=1e-12)
    assert document["axes"][change["axis"]] == change["from"]


def test_an_infeasible_candidate_is_told_in_words(study):
    """A person at a terminal would see numbers and not the verdict."""
    answer = planner("evaluate", study, "--set", "zero_stage=0", "--set", "tp=1")
    assert answer.code == 1
    assert answer.out.startswith("infeasible: memory: has ")
    assert "nearest feasible: " in answer.out


@pytest.mark.long
def test_sites_are_not_mixed(tmp_path):
    """A plan would be feasible by the price of one site and the carbon of another."""
    study = tmp_path / "x.toml"
    sites = ONE.replace('site = "us-tx"', 'site = ["us-tx", "se"]')
    study.write_text(sites)
    here, there = (evaluated(study, f"costing.site={s}")["metrics"] for s in ("us-tx", "se"))
    assert here["usd"] < there["usd"]
    assert here["kgco2e"] > there["kgco2e"]
    usd, kgco2e = (here["usd"] + there["usd"]) / 2, (here["kgco2e"] + there["kgco2e"]) / 2
    document = evaluated(study, f"limits.usd={usd}", f"limits.kgco2e={kgco2e}")
    assert not document["feasible"]
    (line,) = document["violations"]
    assert line["limit"] == "usd"
    assert document["taken"]["site"] == document["metrics"]["site"] == "se"
    assert document["metrics"]["usd"] == there["usd"]
    assert evaluated(study, f"limits.kgco2e={kgco2e}")["metrics"]["site"] == "se"
    assert evaluated(study)["metrics"]["site"] == "us-tx"
    run = planner("run", study, "--db", tmp_path / "x.duckdb", "--workers", 1, "--json",
                  "--set", f"limits.usd={usd}", "--set", f"limits.kgco2e={kgco2e}")  # fmt: skip
    assert run.code == 1
    nearest = run.document["nearest"]["plans"][0]
    assert (nearest["binding"], nearest["site"]) == ("usd", "se")
    assert nearest["worst_excess"] == pytest.approx(there["usd"] / usd - 1)


def test_axes_left_open_are_taken_at_their_first_value_and_named(tmp_path):
    """A person would not know which of the candidates was evaluated."""
    study = tmp_path / "x.toml"
    study.write_text(DENSE)
    document = evaluated(study, "tp=2")
    taken = {
        "accelerator": "H100-SXM", "devices": 32, "pipeline_parallel": 1, "zero_stage": 1,
        "micro_batch_sequences": 1, "recompute": "none",
    }  # fmt: skip
    site = {"site": document["metrics"]["site"]}
    assert document["taken"] == {**taken, **site}
    assert {name: document["axes"][name] for name in taken} == taken
    assert document["axes"]["tensor_parallel"] == 2


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("tensor_paralel=2", "did you mean tensor_parallel"),
        ("tp=0", "wanted whole numbers of at least 1"),
        ("tp=two", "wanted whole numbers"),
        ("tp", "has no value; wanted AXIS=VALUE"),
        ("precision=bf17", "wanted one or a list of"),
        ("accelerator=H1000-SXM", "did you mean H100-SXM"),
        ("accelerator=all", "add --set accelerator=NAME"),
        ("costing.site=sweden", "is not known"),
        ("costing.pue=0.5", "from 1 to 5"),
        ("limits.dyas=3", "did you mean days"),
        ("pin.mfu_frac=40", "mfu_frac"),
        ("supernode_devices=5", "wanted one of [4, 8]"),
        ("tp=3", "tensor_parallel_does_not_divide_heads"),
        ("batching=continuous", "no axis of a train study"),
        ("study.kind=serve", "kind"),
    ],
)
def test_a_setting_that_cannot_mean_anything_is_refused(study, setting, words):
    """A slip would be taken for a wish, or end in our own traceback."""
    answer = planner("evaluate", study, "--set", setting, "--json")
    assert answer.code == 2
    assert answer.out == "" or answer.document["exit_code"] == answer.code
    assert words in answer.err
    assert "Traceback" not in answer.err


def test_every_bad_setting_is_told_at_once(study):
    """A person would mend one setting per try."""
    bad = ("tensor_paralel=2", "dyas=3", "tp")
    answer = planner("evaluate", study, *[w for s in bad for w in ("--set", s)])
    assert answer.code == 2
    assert answer.err.count("error: ") == 3


@pytest.mark.parametrize("ranks", [8, 16, 32, 64, 128, 256])
def test_experts_can_be_shared_out_without_tensor_parallelism(tmp_path, ranks):
    """One group of ranks would need the other (SimAI#298)."""
    study = tmp_path / "x.toml"
    text = with_lines(MOE, model='model = "deepseek-ai--DeepSeek-V3"', zero_stage="zero_stage = 1")
    text = with_lines(text, accelerator='accelerator = "H800-SXM"', devices="devices = 2048")
    study.write_text(with_lines(text, global_batch_sequences="global_batch_sequences = 8192"))
    document = evaluated(study, "tp=1", "pp=8", f"ep={ranks}", "recompute=full")
    axes, terms = document["axes"], document["ledgers"]["step_s"]["terms"]
    assert axes["expert_parallel"] == ranks
    assert axes["pipeline_parallel"] * axes["data_parallel"] == axes["devices"] == 2048
    assert axes["data_parallel"] % ranks == 0
    assert terms["expert_parallel"] > 0


BASE = (
    "tp=2", "pp=2", "cp=1", "ep=8", "zero_stage=1", "recompute=none", "schedule=interleaved",
    "vp=2", "mbs=1",
)  # fmt: skip
CHANGES = {
    "compute": ("compute=tiled",),
    "accelerator": ("accelerator=H200-SXM",),
    "devices": ("devices=256",),
    "nodes": ("nodes=32",),
    "supernodes": ("supernodes=32",),
    "supernode_devices": ("supernode_devices=4",),
    "scaleup_gbytes_per_s": ("scaleup_gbytes_per_s=200",),
    "scaleup_topology": ("scaleup_topology=torus2d",),
    "scaleout_gbytes_per_s": ("scaleout_gbytes_per_s=25",),
    "oversubscription": ("oversubscription=2",),
    "scaleout_fabric": ("scaleout_fabric=fat_tree",),
    "tensor_parallel": ("tp=4",),
    "pipeline_parallel": ("pp=4",),
    "context_parallel": ("cp=2",),
    "expert_parallel": ("ep=16",),
    "expert_tensor_parallel": ("etp=2",),
    "schedule": ("schedule=1f1b", "vp=1"),
    "virtual_stages": ("vp=4",),
    "micro_batch_sequences": ("mbs=2",),
    "global_batch_sequences": ("gbs=512",),
    "placement": ("placement=dp-tp-cp-pp",),
    "zero_stage": ("zero_stage=0",),
    "recompute": ("recompute=full",),
    "precision": ("precision=fp8_block",),
    "collective": ("collective=ring",),
    "power_cap_frac": ("power_cap_frac=0.6",),
    "profile": ("profile=compiled_2023",),
    "offload": ("offload=half_activations",),
    "shard_devices": ("shard_devices=16",),
    "chassis_devices": ("chassis_devices=4", "network.any_chassis=true"),
    "first_stage_layers": ("first_stage_layers=28",),
    "last_stage_layers": ("last_stage_layers=18",),
}
"""A change of every axis that should show."""

CHANGES_OF_DENSE = {
    "sequence_parallel": ("sequence_parallel=off",),
    "context_exchange": ("context_exchange=all_to_all",),
}
"""Axes told by a dense model: with one value for models of experts, or without a need of them."""

NAMED = {
    "schedule": (
        ("combined_1f1b", "vp=2"), ("gpipe", "vp=1"), ("zero_bubble", "vp=1"),
        ("dual_pipe", "vp=1"), ("dual_pipe_v", "vp=1"), ("zero_bubble_h2", "vp=1"),
        ("zero_bubble_v", "vp=1"),
    ),
}  # fmt: skip
"""Names of an axis that each differ from the plain one, with what goes with them."""


def test_every_axis_has_a_change_that_shows():
    """A new axis would come in without anybody asking what it does (SimAI#263)."""
    names = {axis.name for axis in axes_of("train")}
    assert names == {*CHANGES, *CHANGES_OF_DENSE, "data_parallel"}


@pytest.mark.long
@pytest.mark.parametrize("is_dense", [False, True])
def test_no_axis_is_a_dead_knob(experts, study, is_dense):
    """A setting would be taken and change nothing (astra-sim#207)."""
    file, start = (study, ("cp=2",)) if is_dense else (experts, BASE)
    base = evaluated(file, *start)
    assert base["feasible"]
    dead = []
    for axis, settings in (CHANGES_OF_DENSE if is_dense else CHANGES).items():
        changed = evaluated(file, *start, *settings)
        moved = [
            name
            for name in ("days", "usd", "resident_bytes", "it_mean_w")
            if abs(changed["metrics"][name] / base["metrics"][name] - 1) > 1e-4
        ]
        if not moved:
            dead.append(axis)
    assert not dead


@pytest.mark.long
def test_every_schedule_differs_from_the_plain_one(experts):
    """A schedule would be listed and priced as another (astra-sim#207)."""
    plain = evaluated(experts, *BASE, *CHANGES["schedule"])["metrics"]
    listed = {name for name, *_ in NAMED["schedule"]} | {"interleaved", DEFAULT_SCHEDULE}
    assert listed == set(AXES["schedule"].names)
    for name, *rest in NAMED["schedule"]:
        metrics = evaluated(experts, *BASE, f"schedule={name}", *rest)["metrics"]
        moved = [n for n in ("days", "resident_bytes") if metrics[n] != plain[n]]
        assert moved, name


def test_the_imbalance_of_experts_is_no_dead_knob_and_not_even_by_default(experts):
    """Real routers are skewed: a default of 1 would promise what no run has."""

    def days(*more):
        return evaluated(experts, *BASE, *more)["metrics"]["days"]

    even = days('workload.main.expert_imbalance="uniform"')
    assert even < days() < days("workload.main.expert_imbalance=2.0")
    assert even < days("workload.main.expert_imbalance={ power_law = 0.5 }")


def test_an_axis_without_physics_is_refused(experts):
    """A source of times that is not there would be taken for another."""
    answer = planner("evaluate", experts, *[w for s in (*BASE, "dp=3") for w in ("--set", s)])
    assert "the study keeps other replica counts" in answer.err


COSTING = {
    "acquire": "on_demand", "carbon": "location_marginal", "embodied": "boavizta",
    "wacc_frac": 0.2, "usd_per_kwh": 0.3, "demand_usd_per_kw_month": 20, "pue": 1.7,
    "grid_kgco2e_per_kwh": 0.9, "life_years": 3, "residual_frac": 0.3, "maintenance_frac": 0.2,
    "utilisation_frac": 0.5, "carbon_usd_per_t": 100, "site": "se",
    "price_usd.H100-SXM": 60000,
}  # fmt: skip
PINS = {
    "mfu_frac": 0.2, "goodput_frac": 0.5, "step_s": 9.0, "model_flop_per_token": 1e11,
    "device_mean_w": 300, "device_peak_w": 900,
}  # fmt: skip


@pytest.mark.long
def test_no_term_of_costing_and_no_pin_is_dead(study):
    """A price would be typed in and change nothing."""
    base = evaluated(study)["metrics"]
    changes = [f"costing.{key}={value}" for key, value in COSTING.items()]
    changes += [f"pin.{key}={value}" for key, value in PINS.items()]
    changes += ["workload.main.tokens=2e12", "workload.main.tokens_per_sequence=4096"]
    changes += ['workload.main.attention="unfused"', "workload.main.model=qwen3-8b"]
    dead = []
    for setting in changes:
        metrics = evaluated(study, setting)["metrics"]
        if all(metrics[name] == base[name] for name in ("usd", "kgco2e", "mfu_frac", "it_peak_w")):
            dead.append(setting)
    assert not dead


@pytest.mark.parametrize("times", [2, 3, 0.5])
def test_tokens_scale_days_money_and_carbon_exactly(study, times):
    """A longer job would come cheaper per token by accident (SimAI#263)."""
    base, more = evaluated(study), evaluated(study, f"workload.main.tokens={1e12 * times}")
    for name in ("days", "usd", "kgco2e", "device_hours", "facility_mwh", "water_l"):
        assert more["metrics"][name] == pytest.approx(times * base["metrics"][name], rel=1e-12)
    for name in ("step_s", "capex_usd", "usd_per_mtoken", "it_mean_w", "resident_bytes"):
        assert more["metrics"][name] == pytest.approx(base["metrics"][name], rel=1e-12)


def test_a_price_scales_what_is_bought_at_it_exactly(study):
    """Twice the price would not be twice the bill for chips."""
    one, two = (
        evaluated(study, f"costing.price_usd.H100-SXM={usd}")["ledgers"]["capex_usd"]["terms"]
        for usd in (30_000, 60_000)
    )
    per_unit = (two["servers"] - one["servers"]) / 64
    assert per_unit > 0
    assert two["spares"] - one["spares"] == pytest.approx(8 * per_unit, rel=1e-12)
    three = evaluated(study, "costing.price_usd.H100-SXM=90_000")["ledgers"]["capex_usd"]
    assert three["terms"]["servers"] - two["servers"] == pytest.approx(64 * per_unit, rel=1e-12)
    for term in ("switches", "links", "storage", "head_nodes", "nics"):
        assert one[term] == two[term]


def test_a_pinned_utilisation_is_what_comes_out(study):
    """A job with given figures would be answered with ours."""
    pins = ("pin.mfu_frac=0.4", "pin.goodput_frac=0.9", "pin.model_flop_per_token=4.8e10")
    metrics = evaluated(study, *pins)["metrics"]
    assert metrics["mfu_frac"] == pytest.approx(0.4, rel=1e-12)
    seconds = 4.8e10 * 1e12 / (64 * 989e12 * 0.4 * 0.9)
    assert metrics["days"] == pytest.approx(seconds / 86_400, rel=2e-3)  # peak is 989.4e12


def test_what_the_run_accepts_can_be_evaluated(tmp_path):
    """A plan of one replica, or smaller than the largest domain, would be refused by name."""
    study = tmp_path / "x.toml"
    study.write_text(ONE)
    small = ("devices=2", "tp=2", "gbs=16", "limits.days=9999")
    refused = planner("evaluate", study, *[word for s in small for word in ("--set", s)])
    assert "a smaller domain already holds all devices" in refused.err
    study.write_text(ONE.replace("supernode_devices = 8\n", ""))
    assert evaluated(study, *small)["axes"]["supernode_devices"] == 4
    document = evaluated(study, *small, "accelerator=GB200")
    assert document["axes"]["supernode_devices"] < 72
    assert evaluated(study, "supernodes=2", "accelerator=GB200", "gbs=576", "limits.days=999")[
        "axes"
    ]["devices"] == 144  # fmt: skip


def test_a_host_too_small_for_what_is_offloaded_is_a_limit(study):
    """A plan would fit on its devices and fill a host that does not have the memory."""
    much = ("tp=1", "mbs=16", "gbs=1024", "devices=64")
    document = evaluated(study, *much, "offload=activations")
    lines = {line["limit"]: line for line in document["violations"]}
    assert lines["host_memory"]["have"] > lines["host_memory"]["need"] == 250e9
    plain = evaluated(study, *much, "offload=none")
    limits = {line["limit"] for line in plain["violations"]}
    assert "memory" in limits
    assert "host_memory" not in limits


POOL = """scope,host_memory_gbytes,host_memory_gbytes_per_s,pool_memory_gbytes,pool_gbytes_per_s,\
source,as_of,grade,licence
hopper,250,76.8,2000,24,quote of a CXL switch,2026-11,vendor,own
"""


def test_a_pool_is_a_candidate_where_a_table_states_one(study, tmp_path):
    """A tier that nobody sells would be planned with, or one that is there left out."""
    much = ("tp=1", "mbs=16", "gbs=1024", "devices=64", "offload=pool_activations")
    refused = planner("evaluate", study, *[word for s in much for word in ("--set", s)])
    assert "pool" in refused.err
    folder = tmp_path / "pool"
    folder.mkdir()
    (folder / "hosts.csv").write_text(POOL)
    study.write_text(study.read_text().replace("[study]", f'[study]\ntables = "{folder}"', 1))
    document = evaluated(study, *much)
    limits = {line["limit"]: line for line in document["violations"]}
    assert "host_memory" not in limits
    assert "pool_memory" not in limits  # 2,000 GB hold what 250 GB of the host do not


def test_offload_makes_room_on_the_device_and_is_the_change_that_saves_a_plan(study):
    """A person would be told to buy more chips where the host has room."""
    tight = evaluated(study, "tp=1", "zero_stage=3", "mbs=4", "offload=none")
    loose = evaluated(study, "tp=1", "zero_stage=3", "mbs=4", "offload=activations")
    room = tight["metrics"]["resident_bytes"] - loose["metrics"]["resident_bytes"]
    terms = [d["ledgers"]["resident_bytes"]["terms"]["activations"] for d in (tight, loose)]
    assert room >= terms[0] - terms[1] > 0
    assert loose["metrics"]["step_s"] >= tight["metrics"]["step_s"]


def test_a_sharding_that_a_pipeline_undoes_is_said(study):
    """ZeRO 3 shown on a plan that holds whole weights would be bought for what it never frees."""
    in_one, in_two = (evaluated(study, f"pp={stages}", "zero_stage=3") for stages in (1, 2))
    assert "zero_in_pipelines" not in in_one["notes"]
    assert "hold and move what 1 does" in in_two["notes"]["zero_in_pipelines"]
