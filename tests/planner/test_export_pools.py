"""A script of two pools read back is its plan; what an engine cannot do is refused."""

import itertools
import re
import subprocess

import pytest
from small import planner
from small_pools import pooled, written
from test_export_serving import AXES, SERVED, read_back

from planner.exports.serving_pools import pools_script
from planner.study.pools import POOLS
from simkernel.errors import BadStudy

ENGINES = ("vllm", "sglang", "trtllm")
SETTINGS = (
    "decode.accelerator=H100-SXM", "prefill.tp=[1,2]", "decode.tp=[1,2]", "decode.max_batch=64",
    "prefill.token_budget=8192", "supernode_devices=8", "costing.site=us-tx",
)  # fmt: skip


def script(engine, way="after_prefill", **changes):
    """A script of two pools that are alike but for `changes`, as prefill_tensor_parallel=2."""
    axes = {f"{pool}.{name}": value for pool in POOLS for name, value in AXES.items()}
    axes |= {name.replace("_", ".", 1): value for name, value in changes.items()}
    plan = {"plan": "pabc", "run": "r0001", "axes": axes | {"kv_transfer": way}}
    return pools_script(
        pooled(f"workload.chat.engine={engine}"), plan, dict.fromkeys(POOLS, SERVED)
    )


def jobs(text):
    """The scripts that sbatch is given, by what they are for."""
    found = re.findall(r"^sbatch [^\n]*<<'(\w+)_JOB'\n(.*?)\n\1_JOB$", text, flags=re.M | re.S)
    return {name.lower(): job for name, job in found}


def pairs():
    """Pools cut in the same way and in different ones, on one host and on several."""
    cuts = [(1, 1), (2, 1), (8, 1), (1, 16)]
    for (prompts, one), (answers, other) in itertools.product(cuts, cuts):
        found = {"prefill_tensor_parallel": prompts, "prefill_attention_data_parallel": one}
        found |= {"decode_tensor_parallel": answers, "decode_attention_data_parallel": other}
        stages = {"prefill": prompts * one, "decode": answers * other}
        found |= {f"{pool}_expert_tensor_parallel": stage for pool, stage in stages.items()}
        yield found | {"prefill_replicas": 5.0, "decode_replicas": 3.0, "decode_max_batch": 256}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_script_of_pools_read_back_is_the_plan(engine):
    """A pool would run with the degrees, limits or number of the other."""
    for changes in pairs():
        text = script(engine, **changes)
        assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
        found = jobs(text)
        assert set(found) == {"prefill", "decode", "proxy"}
        for pool in POOLS:
            told = read_back(engine, found[pool])
            wanted = AXES | {n.split("_", 1)[1]: v for n, v in changes.items() if pool in n}
            for name in (
                "tensor_parallel", "pipeline_parallel", "attention_data_parallel", "max_batch",
                "token_budget", "replicas",
            ):  # fmt: skip
                assert told[name] == wanted[name], (engine, pool, name, changes)
            devices = wanted["tensor_parallel"] * wanted["attention_data_parallel"]
            assert told["devices_per_replica"] == devices
            assert told["longest"] == 9000
            assert f'"$POOLS/{pool}-${{SLURM_ARRAY_TASK_ID:-0}}"' in found[pool]


ROLES = {
    "vllm": ("--kv-transfer-config.kv_role", {"prefill": "kv_producer", "decode": "kv_consumer"}),
    "sglang": ("--disaggregation-mode", {"prefill": "prefill", "decode": "decode"}),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_each_pool_knows_its_part(engine):
    """Both pools would serve whole requests, and keys and values never move."""
    found = jobs(script(engine))
    for pool in POOLS:
        flags = read_back(engine, found[pool])["flags"]
        if engine in ROLES:
            flag, roles = ROLES[engine]
            assert flags[flag] == roles[pool]
        else:
            assert "cache_transceiver_config:\n  backend: NIXL" in found[pool]
            assert "max_tokens_in_buffer: 9000" in found[pool]
            is_alone = "disable_overlap_scheduler: true" in found[pool]
            assert is_alone == (pool == "prefill")
    ports = {flags for pool in POOLS for flags in re.findall(r"\(\((\d+) ", found[pool])}
    assert ports == {"8000", "9000", "21000", "31000"}  # both pools may share a host


def test_the_proxy_waits_for_every_server_of_both_pools():
    """Requests would go to the servers that happened to be first."""
    text = jobs(script("vllm", prefill_replicas=5.0, decode_replicas=3.0))["proxy"]
    assert '"^prefill-")" -ge 5' in text
    assert '"^decode-")" -ge 3' in text
    assert "--prefiller-hosts" in text
    assert "--pd-disaggregation" in jobs(script("sglang"))["proxy"]
    assert "trtllm-serve disaggregated -c" in jobs(script("trtllm"))["proxy"]


def test_the_file_of_the_tensorrt_proxy_names_every_server(tmp_path):
    """It would answer that no server is there."""
    proxy = jobs(script("trtllm"))["proxy"].split("set -eu\n")[1]
    (tmp_path / "prefill-0").write_text("10.0.0.1 8000 21000\n")
    (tmp_path / "prefill-1").write_text("10.0.0.2 8001 21008\n")
    (tmp_path / "decode-0").write_text("10.0.0.3 9000 31000\n")
    lines = [line for line in proxy.splitlines() if not line.startswith(("until", "trtllm"))]
    text = f'POOLS="{tmp_path}"\n' + "\n".join(lines)
    subprocess.run(["bash", "-c", text], check=True)
    found = (tmp_path / "proxy.yml").read_text()
    assert 'context_servers:\n  num_instances: 2\n  urls:\n    - "10.0.0.1:8000"' in found
    assert 'generation_servers:\n  num_instances: 1\n  urls:\n    - "10.0.0.3:9000"' in found


def test_layer_by_layer_is_another_connector():
    """Keys and values would move after the prompt where beside it was priced."""
    found = jobs(script("vllm", "layer_wise"))
    flags = read_back("vllm", found["prefill"])["flags"]
    assert flags["--kv-transfer-config.kv_connector"] == "P2pNcclConnector"
    assert flags["--kv-transfer-config.kv_connector_extra_config.http_port"] == flags["--port"]
    assert "disagg_proxy_p2p_nccl_xpyd.py" in found["proxy"]
    assert 'until [ -s "$POOLS/proxy" ]' in found["decode"]


def test_pools_on_other_chips_ask_for_their_hosts():
    """Slurm would put answers on the hosts of prompts."""
    text = script("vllm", decode_accelerator="H20")
    assert "${DECODE_HOSTS:?options of sbatch for H20" in text
    assert "${DECODE_HOSTS:-} <<'DECODE_JOB'" in text
    assert "_HOSTS:?" not in script("vllm")


@pytest.mark.parametrize(
    ("engine", "way", "changes", "told"),
    [
        ("sglang", "layer_wise", {}, "kv_transfer=after_prefill"),
        ("trtllm", "layer_wise", {}, "kv_transfer=after_prefill"),
        ("vllm", "layer_wise", {"decode_tensor_parallel": 4}, "from 2 x 1 to 4 x 1"),
        ("vllm", "after_prefill", {"prefill_pipeline_parallel": 2}, "between pipelines"),
        ("vllm", "after_prefill", {"decode_speculative": "mtp"}, "decode.speculative is mtp"),
    ],
)
def test_what_an_engine_cannot_do_between_pools_is_refused(engine, way, changes, told):
    """A script would start servers that never find each other's keys and values."""
    with pytest.raises(BadStudy, match=re.escape(told)):
        script(engine, way, **changes)


@pytest.mark.long
def test_stored_pools_are_exported_and_ordered(tmp_path):
    """The command would know plans of one pool alone; an order would miss a pool."""
    db = tmp_path / "pools.duckdb"
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    words += ["--set", "kv_transfer=after_prefill", "--replay", "0"]
    assert planner("run", written(tmp_path), *words, "--db", db, "--json").code == 0
    plan = planner("explain", "1", "1", "--db", db, "--json").document
    found = jobs(
        planner("export", "1", "1", "--to", "launch", "--db", db, "--json").document["text"]
    )
    for pool in POOLS:
        told = read_back("vllm", found[pool])
        for name in ("tensor_parallel", "max_batch", "token_budget", "replicas"):
            assert told[name] == plan["axes"][f"{pool}.{name}"]
    rows = planner("export", "1", "1", "--to", "bom", "--db", db, "--json").document["rows"]
    paid = plan["metrics"]["capex_usd"]
    assert sum(row["usd"] for row in rows) == pytest.approx(paid, rel=1e-9)
    servers = [row for row in rows if row["item"] == "servers"]
    assert [row["what"].rsplit(" ", 1)[1] for row in servers] == ["prompts", "answers"]
    units = plan["metrics"]["purchase_units"]
    assert sum(row["quantity"] for row in servers) >= units
