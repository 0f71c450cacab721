"""Every fault of the list is held by tests that are there, or waits for an issue; those left."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from faults import faults_of, missing_tests

from costdata.catalog import Catalog
from costdata.configs import read_model
from planner.documents.answers import evaluate
from planner.study.read import study_from_text
from planner.training.engine import catalogue_names, prepare
from simkernel import plugins
from simkernel.errors import MissingFact
from simkernel.models import layer_parameters, parameters
from simkernel.placement import DIMENSIONS, Degrees, Group, order_code, place
from simkernel.traffic import Wires

FAULTS = faults_of("training_faults.toml")
OPEN_ISSUES = {"5", "6", "7"}

DEEPSEEK = """
[study]
name = "deepseek"
kind = "train"
[workload.main]
model = "deepseek-ai--DeepSeek-V3"
tokens = 1e12
tokens_per_sequence = 4096
[axes]
accelerator = "H100-SXM"
devices = 2048
pipeline_parallel = 16
global_batch_sequences = 8192
[costing]
site = "us-tx"
"""

MOVES = {
    "tensor_parallel", "expert_parallel", "pipeline_send", "data_parallel_per_micro_batch",
    "data_parallel",
}  # fmt: skip
WORKS = {"embedding_and_head", "gemm", "elementwise", "attention", "recompute", "optimiser"}
WAITS = {"host", "bubble", "stragglers", "power_cap", "offload"}


@pytest.fixture(scope="module")
def deepseek(tmp_path_factory):
    """deepseek("ep=8"): one plan of DeepSeek-V3, as `planner evaluate` tells it."""
    study = tmp_path_factory.mktemp("faults") / "x.toml"
    study.write_text(DEEPSEEK)
    return lambda *settings: evaluate(str(study), settings)


def terms(document, ledger):
    return document["ledgers"][ledger]["terms"]


def wires(bytes_per_s, step_s):
    """Both tiers alike."""
    return Wires(bytes_per_s, 1.0, 0.0, step_s, bytes_per_s, 1.0, 0.0, step_s)


def group(size, inside):
    return Group(np.array([size]), np.array([inside]))


def elapsed_s(name, operation, link, members, payload_bytes):
    module = plugins.find("collectives", name)
    return module.traffic(operation, link, members, payload_bytes).elapsed_s[0]


def test_every_training_fault_is_held_by_tests_that_are_there_or_waits():
    """A test could be renamed away, and its fault come back unseen."""
    assert len(FAULTS) == 31
    assert len({fault["thread"] for fault in FAULTS}) == len(FAULTS)
    assert missing_tests(FAULTS) == {}
    assert all(fault["kind"] and (fault["tests"] or "pending" in fault) for fault in FAULTS)
    waiting = {fault["pending"].partition(":")[0] for fault in FAULTS if "pending" in fault}
    assert waiting <= OPEN_ISSUES


@pytest.mark.parametrize("name", plugins.names("schedules"))
def test_simai_270_a_step_has_two_passes_per_stage_and_micro_batch(name):
    """A depth fixed in code would leave passes out, or make them without end."""
    module, micro_batches = plugins.find("schedules", name), 128
    chunks = 2 if module.TRAITS.is_chunked else 1
    for devices in (2, 4, 8, 16, 32, 64):
        passes = [
            [one for item in module.order(d, devices, chunks, micro_batches) for one in item]
            for d in range(devices)
        ]
        kinds = [kind for some in passes for kind, *_ in some]
        stages = devices * module.TRAITS.stages_held // module.TRAITS.stage_copies
        assert kinds.count("forward") == stages * chunks * micro_batches
        assert kinds.count("input") == kinds.count("weight")
        whole = kinds.count("backward") + kinds.count("input")
        assert whole == stages * chunks * micro_batches
        assert all(len(set(some)) == len(some) for some in passes)


def test_simai_62_a_deeper_pipeline_sends_and_a_wider_one_reduces(deepseek):
    """Stages would hand on activations, and replicas sum gradients, in no time."""
    deep, flat = deepseek("pp=16", "ep=8"), deepseek("pp=1", "ep=8")
    assert terms(deep, "step_s")["pipeline_send"] > 0
    assert terms(deep, "step_s")["data_parallel"] > 0
    assert terms(flat, "step_s")["pipeline_send"] == terms(flat, "step_s")["bubble"] == 0
    assert deep["traffic"]["outside_bytes_per_step"] > 0


@pytest.mark.parametrize("rate", ["scaleup_bytes_per_s", "scaleout_bytes_per_s"])
def test_simai_187_a_chip_without_a_bandwidth_is_no_candidate(monkeypatch, rate):
    """A link that nobody measured would be free, or make every plan a bubble."""
    whole = Catalog.chips

    def lacking(self, names):
        table = whole(self, names)
        gap = np.where(table.name == "H100-SXM", np.nan, getattr(table, rate))
        return replace(table, **{rate: gap})

    monkeypatch.setattr(Catalog, "chips", lacking)
    study = study_from_text(DEEPSEEK, "x.toml", Path(), catalogue_names())
    with pytest.raises(MissingFact, match=f"H100-SXM: .*{rate} is not known"):
        prepare(study)
    chips = ("H100-SXM", "B200-SXM")
    both = replace(study, axes=MappingProxyType({**study.axes, "accelerator": chips}))
    assert set(prepare(both).missing) == {"H100-SXM"}


def test_simai_239_a_message_of_64_kib_takes_its_latency_and_its_bytes():
    """A size below the tables would be -1 s, or nothing."""
    for name in plugins.names("collectives"):
        for operation in plugins.find("collectives", name).OPERATIONS:
            found = elapsed_s(name, operation, wires(50e9, 1e-6), group(8, 1), 65536.0)
            assert 1e-6 < found < 14e-6 + 2 * 65536 / 50e9


@pytest.mark.long
def test_simai_241_a_chip_without_measured_products_is_marked_and_its_band_no_narrower(deepseek):
    """A guess would stand among measured figures and look as sure."""
    measured = deepseek("accelerator=H100-SXM", "ep=8")["metrics"]
    moved = deepseek("accelerator=Ascend-910C", "ep=8")["metrics"]
    assert (measured["validated"], moved["validated"]) == (1, 0)
    wide, narrow = (m["step_s_high"] / m["step_s_low"] for m in (moved, measured))
    assert wide > narrow > 1


def test_astra_sim_207_twice_the_bytes_or_more_nodes_take_longer():
    """Another size or another count would give the same seconds."""
    link, mib = wires(50e9, 1e-5), 2.0**20
    one, two = (
        elapsed_s("ring", "all_reduce", link, group(8, 1), size * mib) for size in (256, 512)
    )
    assert 1.8 < two / one <= 2.0
    few, many = (elapsed_s("ring", "all_reduce", link, group(nodes, 1), 1.0) for nodes in (8, 64))
    assert many / few == pytest.approx(126 / 14, rel=1e-3)


def test_astra_sim_296_ring_and_direct_differ_by_steps_alone():
    """8 devices, 100 MB, 50 GB/s: 3.5 ms of bytes either way, 14 steps in a ring and 2 direct."""
    link, members = wires(50e9, 1e-6), group(8, 8)
    ring = elapsed_s("ring", "all_reduce", link, members, 100e6)
    direct = 2 * elapsed_s("direct", "all_to_all", link, members, 100e6)
    assert ring == pytest.approx(3.5e-3 + 14e-6, rel=1e-12)
    assert direct == pytest.approx(3.5e-3 + 2e-6, rel=1e-12)


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter"])
def test_astra_sim_150_two_by_eight_is_eight_by_two_on_equal_wires(operation):
    """Which axis is called the first would decide the time."""
    link, passes = wires(50e9, 1e-6), 2 if operation == "all_reduce" else 1
    tall, flat = (
        elapsed_s("hierarchical", operation, link, group(16, inside), 100e6) for inside in (2, 8)
    )
    assert tall == pytest.approx(flat, rel=1e-12)
    assert flat == pytest.approx(passes * (15 / 16 * 100e6 / 50e9 + 8e-6), rel=1e-12)


def test_astra_sim_150_names_of_dimensions_do_not_move_a_group():
    """Groups of one size and stride would sit elsewhere under another name."""
    sizes = (2, 4, 2, 4)
    one = np.ones(1, dtype=np.int64)
    fields = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline"}
    found = set()
    for order in permutations(DIMENSIONS):
        degrees = {fields[name]: size * one for name, size in zip(order, sizes, strict=True)}
        placed = place(
            Degrees(**degrees, expert=one, expert_tensor=one), 8 * one,
            np.array([order_code("-".join(order))]),
        )  # fmt: skip
        found.add(tuple(int(getattr(placed, fields[name]).inside[0]) for name in order))
    assert found == {(2, 4, 1, 1)}


def test_llm_analysis_19_a_layer_has_two_norms():
    """One norm a layer would pass unseen: it is a millionth of the parameters."""
    model = read_model("llama-2-7b")
    assert layer_parameters(model.kinds[0]).terms["vectors"] == 2 * 4096
    assert parameters(model).total == pytest.approx(6_738_415_616, rel=1e-12)


@pytest.mark.long
def test_megatron_1784_activations_of_deepseek_move_with_the_expert_groups(deepseek):
    """Experts would be kept as one dense layer, however they are shared out."""
    plain, cut, spread = (
        terms(deepseek("tp=2", *words), "resident_bytes")["activations"]
        for words in (("ep=8", "etp=1"), ("ep=8", "etp=2"), ("ep=64", "etp=1"))
    )
    assert cut > 1.05 * plain
    assert spread != plain


def test_megatron_525_what_must_fit_holds_the_reserve(deepseek):
    """A plan would be sold that dies of what the framework takes."""
    found = deepseek("ep=64")
    parts = terms(found, "resident_bytes")
    assert parts["framework"] > 1e9
    assert parts["fragmentation"] > 0
    (memory,) = (v for v in found["violations"] if v["limit"] == "memory")
    assert memory["have"] == pytest.approx(sum(parts.values()), rel=1e-12)
    assert found["metrics"]["headroom_bytes"] == pytest.approx(memory["need"] - memory["have"])


def test_llmfit_230_deepseek_on_eight_devices_holds_all_it_has_and_does_not_fit(deepseek):
    """37 B active parameters would fit where 671 B are loaded."""
    counts = parameters(read_model("deepseek-v3"))
    found = deepseek("devices=8", "pp=1", "ep=8", "zero_stage=0", "recompute=full")
    assert counts.total == pytest.approx(671.03e9, rel=1e-4)
    held = 2 * (counts.total - counts.terms["experts"] * 7 / 8)
    assert terms(found, "resident_bytes")["weights"] == pytest.approx(held, rel=1e-9)
    assert "memory" in {violation["limit"] for violation in found["violations"]}
    assert not found["feasible"]


def test_chakra_220_the_step_names_work_traffic_waiting_and_the_host(deepseek):
    """What the host or a collective takes would be lost between what is measured and told."""
    found = deepseek("tp=2", "ep=8")
    parts = terms(found, "step_s")
    assert set(parts) == MOVES | WORKS | WAITS
    assert sum(parts.values()) == pytest.approx(found["metrics"]["step_s"], rel=1e-9)
    assert all(parts[name] > 0 for name in ("tensor_parallel", "expert_parallel", "stragglers"))
