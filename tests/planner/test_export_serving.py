"""A serving script read back is its plan; what an engine cannot do is refused."""

import itertools
import re

import pytest
from small import planner
from small_serve import chat, written

from planner.exports.serving import Served, serving_script
from simkernel.errors import BadStudy

AXES = {
    "accelerator": "H100-SXM", "devices": 64, "tensor_parallel": 2, "pipeline_parallel": 1,
    "attention_data_parallel": 1, "expert_parallel": 1, "expert_tensor_parallel": 2,
    "placement": "tp-cp-ep-dp-pp", "precision": "bf16", "kv_precision": "bf16",
    "batching": "chunked_prefill", "max_batch": 128, "token_budget": 4096, "replicas": 8.0,
    "routing": "least_loaded", "speculative": "none", "prefix_cache": "none",
    "kv_tiers": "device", "power_cap_frac": 1.0,
}  # fmt: skip
SERVED = Served("org/model", "bf16", True, 9000, 8, 700.0)
ENGINES = ("vllm", "sglang", "trtllm")


def script(engine, served=SERVED, **axes):
    study = chat(f"workload.chat.engine={engine}")
    return serving_script(study, {"plan": "pabc", "run": "r0001", "axes": AXES | axes}, served)


def read_back(engine, text):
    """The decisions of a plan, from the words of a script and what its engine means by them."""
    words = text.replace("\\\n", " ").split("srun ")[-1].rstrip("'").split()
    flags = {
        word: "" if next_.startswith("--") else next_
        for word, next_ in zip(words, [*words[1:], "--"], strict=True)
        if word.startswith("--")
    }
    slurm = {k: v for k, v in re.findall(r"#SBATCH --(\S+)=(\S+)", text)}
    found = globals()[f"{engine}_means"](flags, text)
    return found | {
        "replicas": int(slurm["array"].split("-")[1]) + 1,
        "devices_per_replica": int(slurm["nodes"]) * int(slurm["gpus-per-node"]),
        "flags": flags,
    }


def vllm_means(flags, text):
    """Limits are of one data-parallel rank; experts over all ranks or over none."""
    copies = int(flags.get("--data-parallel-size", 1))
    tensor = int(flags["--tensor-parallel-size"])
    is_expert = "--enable-expert-parallel" in flags
    return {
        "tensor_parallel": tensor,
        "pipeline_parallel": int(flags["--pipeline-parallel-size"]),
        "attention_data_parallel": copies,
        "expert_parallel": tensor * copies if is_expert else 1,
        "expert_tensor_parallel": 1 if is_expert else tensor * copies,
        "max_batch": int(flags["--max-num-seqs"]),
        "token_budget": int(flags["--max-num-batched-tokens"]),
        "longest": int(flags["--max-model-len"]),
        "kv_precision": {"auto": "bf16"}.get(flags["--kv-cache-dtype"], flags["--kv-cache-dtype"]),
        "precision": {"bfloat16": "bf16"}.get(flags.get("--dtype"), flags.get("--quantization")),
        "is_cached": "--no-enable-prefix-caching" not in flags,
        "is_chunked": "--enable-chunked-prefill" in flags,
    }


def sglang_means(flags, text):
    """Tensor size and limits are of all ranks together (server_args.py divides them)."""
    copies = int(flags.get("--dp-size", 1))
    assert (copies > 1) == ("--enable-dp-attention" in flags)
    stage, expert = int(flags["--tp-size"]), int(flags["--ep-size"])
    chunk = int(flags["--chunked-prefill-size"])
    is_chunked, is_alone = chunk != -1, "--disaggregation-mode" in flags
    assert ("--enable-mixed-chunk" in flags) == (is_chunked and not is_alone)
    return {
        "tensor_parallel": stage // copies,
        "pipeline_parallel": int(flags["--pp-size"]),
        "attention_data_parallel": copies,
        "expert_parallel": expert,
        "expert_tensor_parallel": stage // expert,
        "max_batch": int(flags["--max-running-requests"]) // copies,
        "token_budget": chunk // copies if is_chunked else int(flags["--max-prefill-tokens"]),
        "longest": int(flags["--context-length"]),
        "kv_precision": "fp8" if flags["--kv-cache-dtype"] == "fp8_e4m3" else "bf16",
        "precision": {"bfloat16": "bf16"}.get(flags.get("--dtype"), flags.get("--quantization")),
        "is_cached": "--disable-radix-cache" not in flags,
        "is_chunked": is_chunked,
    }


def trtllm_means(flags, text):
    """Tensor size is of all ranks, limits of one; the rest stands in the file."""
    options = dict(re.findall(r"^\s*(\w+): (\S+)$", text, flags=re.MULTILINE))
    stage, expert = int(flags["--tp_size"]), int(flags["--ep_size"])
    copies = stage if options["enable_attention_dp"] == "true" else 1
    return {
        "tensor_parallel": stage // copies,
        "pipeline_parallel": int(flags["--pp_size"]),
        "attention_data_parallel": copies,
        "expert_parallel": expert,
        "expert_tensor_parallel": stage // expert,
        "max_batch": int(flags["--max_batch_size"]),
        "token_budget": int(flags["--max_num_tokens"]),
        "longest": int(flags["--max_seq_len"]),
        "kv_precision": "fp8" if options["dtype"] == "fp8" else "bf16",
        "precision": None,
        "is_cached": options["enable_block_reuse"] == "true",
        "is_chunked": options["enable_chunked_prefill"] == "true",
    }


def plans():
    """Ways to cut a replica: narrow, wide, copies of attention, on one host and on four."""
    cuts = [(2, 1, 1), (8, 1, 1), (4, 2, 1), (1, 1, 8), (8, 4, 1), (1, 1, 32)]
    for (tensor, pipeline, copies), kv in itertools.product(cuts, ("bf16", "fp8")):
        stage = tensor * copies
        for expert in (1, stage):
            yield {
                "tensor_parallel": tensor, "pipeline_parallel": pipeline,
                "attention_data_parallel": copies, "expert_parallel": expert,
                "expert_tensor_parallel": stage // expert, "kv_precision": kv,
                "precision": "fp8" if kv == "fp8" else "bf16",
                "batching": "chunked_prefill" if kv == "fp8" else "continuous",
            }  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
def test_a_serving_script_read_back_is_the_plan(engine):
    """The engine would run other degrees, limits, lengths or precisions than were priced."""
    for axes in plans():
        found = read_back(engine, script(engine, **axes))
        wanted = AXES | axes
        for name in axes.keys() - {"batching", "precision"} | {"max_batch", "token_budget"}:
            assert found[name] == wanted[name], (engine, name, axes)
        assert found["precision"] in (wanted["precision"], None)
        assert found["longest"] == 9000
        assert not found["is_cached"]
        assert found["is_chunked"] == (wanted["batching"] == "chunked_prefill")
        assert found["replicas"] == 8
        devices = axes["tensor_parallel"] * axes["pipeline_parallel"]
        assert found["devices_per_replica"] == devices * axes["attention_data_parallel"]


@pytest.mark.parametrize("engine", ENGINES)
def test_hosts_of_one_replica_meet(engine):
    """Each host would start a replica of its own, or wait for the others for ever."""
    text = script(engine, tensor_parallel=8, pipeline_parallel=2, expert_tensor_parallel=8)
    assert "#SBATCH --nodes=2" in text
    meets = {"vllm": "--master-addr $HEAD", "sglang": "--dist-init-addr $HEAD:20000",
             "trtllm": "srun trtllm-llmapi-launch trtllm-serve"}  # fmt: skip
    assert meets[engine] in text
    assert ("scontrol" in text) == (engine != "trtllm")
    wide = script("vllm", tensor_parallel=1, attention_data_parallel=16, expert_parallel=16,
                  expert_tensor_parallel=1)  # fmt: skip
    assert "--data-parallel-start-rank $((SLURM_NODEID * 8))" in wide


def test_the_checkpoint_has_the_precision_that_was_priced():
    """A replica would run in 16 bits what was priced in 4."""
    assert "MODEL:=org/model" in script("vllm", precision="fp8")
    assert "MODEL:?a checkpoint with weights in nvfp4" in script("vllm", precision="nvfp4")
    assert "MODEL:?a checkpoint with weights in fp8" in script("trtllm", precision="fp8")
    narrow = Served("org/model-fp8", "fp8", True, 9000, 8, 700.0)
    assert "--quantization" not in script("vllm", narrow, precision="fp8")
    assert "MODEL:=org/model-fp8" in script("trtllm", narrow, precision="fp8")
    assert "MODEL:?a checkpoint with weights in bf16" in script("vllm", narrow)


def test_a_power_cap_is_set_before_the_server_starts():
    """A capped plan would be priced and an uncapped one run."""
    text = script("vllm", power_cap_frac=0.7)
    assert "--power-limit=490" in text
    assert text.index("--power-limit") < text.index("vllm serve")
    assert "--power-limit" not in script("vllm")


@pytest.mark.parametrize(
    ("engine", "axes", "told"),
    [
        ("vllm", {"expert_parallel": 2, "expert_tensor_parallel": 4, "tensor_parallel": 8},
         "not at all"),
        ("trtllm", {"attention_data_parallel": 4, "expert_tensor_parallel": 8}, "parallel 1"),
        ("vllm", {"batching": "sarathi"}, "chunked_prefill or continuous"),
        ("sglang", {"placement": "ep-tp-cp-dp-pp"}, "placement"),
        ("sglang", {"tensor_parallel": 12}, "fills no whole hosts"),
        ("vllm", {"tensor_parallel": 8, "pipeline_parallel": 2, "attention_data_parallel": 2,
                  "expert_tensor_parallel": 16}, "inside one host"),
    ],
)  # fmt: skip
def test_what_a_serving_engine_cannot_do_is_refused(engine, axes, told):
    """A script without the decision would serve another plan under this one's name."""
    with pytest.raises(BadStudy, match=told):
        script(engine, **axes)


@pytest.mark.long
def test_a_stored_serving_plan_is_exported(tmp_path):
    """The command would know training plans alone."""
    db = tmp_path / "chat.duckdb"
    assert planner("run", written(tmp_path), "--replay", "0", "--db", db, "--json").code == 0
    plan = planner("explain", "1", "1", "--db", db, "--json").document["axes"]
    text = planner("export", "1", "1", "--to", "launch", "--db", db, "--json").document["text"]
    found = read_back("vllm", text)
    for name in ("tensor_parallel", "pipeline_parallel", "max_batch", "token_budget", "replicas"):
        assert found[name] == plan[name]
    assert found["longest"] <= 1750
