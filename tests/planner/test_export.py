"""A stored plan as cost rows and as a bill of materials: columns, sums, and refusals."""

import csv
import io
import re
from datetime import datetime
from pathlib import Path

import pytest
from small import DENSE, planner, with_lines

from planner.archive.store import Archive
from planner.costing.recost import stored_study
from planner.exports.bridge import bridge_overrides
from planner.exports.focus import COLUMNS, focus_rows, totals
from planner.exports.launch import DEGREES, launch_script, megatron_arguments
from simkernel.errors import BadStudy

CAPITAL = ("servers", "stranded", "spares", "network", "storage", "head_nodes", "facility")
REQUIRED = (
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeDescription", "ChargePeriodEnd",
    "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost",
    "ProviderName", "PublisherName", "ServiceCategory", "ServiceName",
)  # fmt: skip
"""Columns that FOCUS 1.0 forbids to be null."""


@pytest.fixture(scope="module")
def exported(workspace):
    """exported(form, *words): the document of an export of the first plan."""

    def export(form, *words):
        return planner(
            "export", "1", "1", "--to", form, *words, "--db", workspace.db, "--json"
        ).document

    return export


@pytest.fixture(scope="module")
def plan(workspace):
    return planner("explain", "1", "1", "--db", workspace.db, "--json").document


def test_a_launch_runs_the_plan_that_was_priced(workspace, plan):
    """A script would shard, cut or exchange in another way than the plan that was bought."""
    study = stored_study(Archive(workspace.db).run("1"))

    def flags(**changes):
        return dict(megatron_arguments(study, {**plan, "axes": {**plan["axes"], **changes}}))

    assert "--sequence-parallel" in flags(tensor_parallel=2, sequence_parallel="on")
    assert "--sequence-parallel" not in flags(tensor_parallel=2, sequence_parallel="off")
    assert flags(context_parallel=2, context_exchange="all_to_all")["--cp-comm-type"] == "a2a"
    assert "--moe-token-dispatcher-type" not in flags()
    paired = flags(schedule="combined_1f1b", expert_parallel=8, virtual_stages=2)
    assert paired["--moe-token-dispatcher-type"] == "alltoall"
    assert "--overlap-moe-expert-parallel-comm" in paired
    assert paired["--num-virtual-stages-per-pipeline-rank"] == "2"


@pytest.mark.parametrize(
    ("stage", "strategy"), [(1, None), (2, "optim_grads"), (3, "optim_grads_params")]
)
def test_sharded_weights_are_read_back_as_the_plan_shards_them(workspace, plan, stage, strategy):
    """Weights would be whole on every device, and the run out of memory, or not start."""
    study = stored_study(Archive(workspace.db).run("1"))
    axes = {**plan["axes"], "zero_stage": stage, "shard_devices": 8}
    axes |= {"data_parallel": 16, "context_parallel": 2, "tensor_parallel": 1, "devices": 32}
    script = launch_script(study, {**plan, "axes": axes}, 8, 700.0)
    flags, _ = read_back(script)
    assert flags.get("--data-parallel-sharding-strategy") == strategy
    assert {"--use-distributed-optimizer", "--overlap-param-gather"} <= set(flags)
    is_full = stage > 1
    assert ("--use-megatron-fsdp" in flags) == is_full
    assert flags.get("--ckpt-format") == ("fsdp_dtensor" if is_full else None)
    assert ("--no-gradient-accumulation-fusion" in flags) == is_full
    assert ("export CUDA_DEVICE_MAX_CONNECTIONS=1" in script) == (not is_full)
    assert int(flags["--num-distributed-optimizer-instances"]) * 8 == 16 * 2


@pytest.mark.long
def test_a_launch_is_for_the_chips_it_runs_on(tmp_path):
    """A Slurm script for CUDA would be handed over for another maker."""
    study = tmp_path / "amd.toml"
    study.write_text(with_lines(DENSE, accelerator='accelerator = "MI300X"'))
    db = tmp_path / "amd.duckdb"
    assert planner("run", study, "--db", db, "--json").code == 0
    answer = planner("export", "1", "1", "--to", "launch", "--db", db)
    assert answer.code == 2
    assert "does not run on MI300X" in answer.err


@pytest.mark.long
def test_hardware_alone_has_a_bill_of_materials(tmp_path):
    """Whoever buys hardware asks for it first."""
    study = Path(__file__).parents[2] / "studies" / "power_capped_site.toml"
    db = tmp_path / "site.duckdb"
    assert planner("run", study, "--db", db, "--json").code == 0
    rows = planner("export", "1", "1", "--to", "bom", "--db", db, "--json").document["rows"]
    plan = planner("explain", "1", "1", "--db", db, "--json").document
    assert sum(row["usd"] for row in rows) == pytest.approx(plan["metrics"]["capex_usd"], rel=1e-9)


@pytest.mark.long
def test_rows_have_the_published_columns_in_order(exported):
    """A tool that reads FOCUS would refuse the file: 43 columns, alphabetical (FOCUS 1.0)."""
    found = exported("focus.csv")
    assert found["columns"] == list(COLUMNS) == sorted(COLUMNS)
    assert len(COLUMNS) == 43
    for row in found["rows"]:
        assert list(row) == list(COLUMNS)
        assert all(row[name] != "" for name in REQUIRED)
        assert row["ChargeCategory"] in ("Usage", "Purchase")


@pytest.mark.long
def test_cost_rows_sum_to_the_plan(exported, plan):
    """Finance would find another total than the planner's: to 1e-9 of it."""
    found = totals(exported("focus.csv")["rows"])
    assert found["EffectiveCost"] == pytest.approx(plan["metrics"]["usd"], rel=1e-9)
    paid = sum(v for n, v in plan["ledgers"]["usd"]["terms"].items() if n not in CAPITAL)
    assert found["BilledCost"] == pytest.approx(plan["metrics"]["capex_usd"] + paid, rel=1e-9)


def test_a_run_over_new_year_is_billed_in_its_months(plan):
    """40 days from the 20th of December: 12 and 28 of them; a month too many would be a bill."""
    rows = focus_rows(plan, "study", datetime(2027, 12, 20), 40.0)
    staff = [r for r in rows if r["ServiceName"] == "staff"]
    assert [r["BillingPeriodStart"][:7] for r in staff] == ["2027-12", "2028-01"]
    whole = plan["ledgers"]["usd"]["terms"]["staff"]
    assert [r["EffectiveCost"] for r in staff] == pytest.approx([0.3 * whole, 0.7 * whole])
    assert staff[0]["ChargePeriodEnd"] == staff[1]["ChargePeriodStart"] == "2028-01-01T00:00:00Z"


def test_what_is_ordered_sums_to_what_is_paid(exported, plan):
    """An order that misses the cables would come to less than the plan: to 1e-9 of it."""
    rows = exported("bom")["rows"]
    assert sum(row["usd"] for row in rows) == pytest.approx(plan["metrics"]["capex_usd"], rel=1e-9)
    for row in rows:
        assert row["quantity"] * row["unit_usd"] == pytest.approx(row["usd"], rel=1e-9)
    servers = next(row for row in rows if row["item"] == "servers")
    assert servers["quantity"] == plan["metrics"]["purchase_units"]
    assert float(servers["lead_low_weeks"]) <= float(servers["lead_high_weeks"])
    switches = next(row for row in rows if row["item"] == "switches")
    assert switches["lead_source"].startswith("Gartner")
    cables = next(row for row in rows if row["item"] == "links")
    assert cables["lead_low_weeks"] == ""  # nobody says; a blank is no promise


def test_a_person_gets_a_csv_file(workspace):
    """The table on the screen could not be opened in a spreadsheet."""
    text = planner("export", "1", "1", "--to", "bom", "--db", workspace.db).out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["item"] == "servers"
    assert len(rows) > 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--to", "docx"), "wanted focus.csv, bom, launch, launch-bridge"),
        (("--to", "focus.csv", "--start", "soon"), "wanted a day"),
    ],
)
def test_what_cannot_be_exported_is_refused(workspace, words, told):
    """A form nobody has, or a day that is none, would end in a traceback."""
    answer = planner("export", "1", "1", *words, "--db", workspace.db)
    assert answer.code == 2
    assert told in answer.err


def read_back(script):
    """Arguments and Slurm counts of a script."""
    words = script.replace("\\\n", " ").split("pretrain_gpt.py")[1].split()
    assert "torchrun --nnodes $SLURM_NNODES --nproc-per-node" in script
    flags = {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            after = words[i + 1] if i + 1 < len(words) else "--"
            flags[word] = "" if after.startswith("--") else after
    return flags, {k: int(v) for k, v in re.findall(r"#SBATCH --(\S+)=(\d+)", script)}


@pytest.mark.long
def test_a_script_read_back_is_the_plan(exported, plan):
    """Another batch or degree would run than the one that was priced."""
    flags, slurm = read_back(exported("launch")["text"])
    axes = plan["axes"]
    for flag, axis in DEGREES.items():
        assert int(flags[flag]) == axes[axis]
    devices = slurm["nodes"] * slurm["gpus-per-node"]
    assert slurm["ntasks-per-node"] == 1  # torchrun starts one process a device
    assert f"--nproc-per-node {slurm['gpus-per-node']} " in exported("launch")["text"]
    assert devices == axes["devices"]
    degrees = [axes[n] for n in ("tensor_parallel", "pipeline_parallel", "context_parallel")]
    assert devices == axes["data_parallel"] * degrees[0] * degrees[1] * degrees[2]
    samples = int(flags["--train-samples"]) * int(flags["--seq-length"])
    steps = samples / (axes["global_batch_sequences"] * int(flags["--seq-length"]))
    assert steps * plan["metrics"]["step_s"] / plan["metrics"]["goodput_frac"] / 86400 == (
        pytest.approx(plan["metrics"]["days"], rel=1e-3)
    )
    assert ("--sequence-parallel" in flags) == (axes["tensor_parallel"] > 1)
    assert ("--use-distributed-optimizer" in flags) == (axes["zero_stage"] == 1)
    assert "--bf16" in flags


def overrides_of(script):
    """Fields that a script of Megatron-Bridge sets."""
    words = script.split("$DATA_OVERRIDES")[1].replace("\\\n", " ").split()
    return dict(word.split("=") for word in words)


BRIDGE_DEGREES = {
    "model.tensor_model_parallel_size": "tensor_parallel",
    "model.pipeline_model_parallel_size": "pipeline_parallel",
    "model.context_parallel_size": "context_parallel",
    "model.expert_model_parallel_size": "expert_parallel",
    "model.expert_tensor_parallel_size": "expert_tensor_parallel",
    "train.micro_batch_size": "micro_batch_sequences",
    "train.global_batch_size": "global_batch_sequences",
}


def test_a_script_of_the_bridge_read_back_is_the_plan(exported, plan):
    """The recipe's own degrees, batch, lengths or recompute would run under the plan's name."""
    text = exported("launch-bridge")["text"]
    found, axes = overrides_of(text), plan["axes"]
    for field, axis in BRIDGE_DEGREES.items():
        assert int(found[field]) == axes[axis]
    assert found["model.seq_length"] == found["dataset.seq_length"] == "8192"
    samples = int(found["train.train_samples"]) * 8192
    assert samples == pytest.approx(1e12, rel=1e-6)
    assert found["mixed_precision"] == "bf16_mixed"
    assert found["model.recompute_granularity"] == (
        "null" if axes["recompute"] == "none" else axes["recompute"]
    )
    assert found["ddp.use_distributed_optimizer"] == str(axes["zero_stage"] >= 1).lower()
    assert "run_recipe.py --recipe $RECIPE" in text
    assert f"#SBATCH --nodes={axes['devices'] // 8}" in text


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_every_argument_of_a_plan_has_a_field_of_the_bridge(workspace, plan, stage, recompute):
    """A decision would be left to the recipe, or the export end in a traceback."""
    study = stored_study(Archive(workspace.db).run("1"))
    axes = {**plan["axes"], "zero_stage": stage, "recompute": recompute, "shard_devices": 8}
    axes |= {"data_parallel": 16, "context_parallel": 2, "tensor_parallel": 1, "devices": 32}
    axes |= {"expert_parallel": 8, "schedule": "combined_1f1b", "virtual_stages": 2}
    axes |= {"first_stage_layers": 3, "last_stage_layers": 2, "precision": "mxfp8"}
    found = dict(bridge_overrides(study, {**plan, "axes": axes}))
    fully = str(stage > 1).lower()
    assert found["ddp.use_megatron_fsdp"] == found["dist.use_megatron_fsdp"] == fully
    assert found["ddp.use_distributed_optimizer"] == str(stage > 0).lower()
    assert found["ddp.num_distributed_optimizer_instances"] == "4"
    assert found["model.virtual_pipeline_model_parallel_size"] == "2"
    assert found["model.num_layers_in_first_pipeline_stage"] == "3"
    assert found["model.num_layers_in_last_pipeline_stage"] == "2"
    assert found["model.cp_comm_type"] == "p2p"
    assert found["model.sequence_parallel"] == "false"
    assert found["comm_overlap.overlap_moe_expert_parallel_comm"] == "true"
    assert found["mixed_precision"] == "bf16_with_mxfp8_mixed"
    assert len(found) == len(bridge_overrides(study, {**plan, "axes": axes}))


def test_what_the_engine_cannot_be_told_is_refused(plan, dense):
    """A script without the decision would run another plan under this one's name."""
    axes = plan["axes"] | {"offload": "optimiser", "schedule": "gpipe"}
    with pytest.raises(BadStudy) as told:
        megatron_arguments(dense.engine.study, {**plan, "axes": axes})
    assert len(told.value.faults) == 2
    with pytest.raises(BadStudy, match="no whole hosts"):
        launch_script(
            dense.engine.study, {**plan, "axes": plan["axes"] | {"devices": 12}}, 8, 700.0
        )
