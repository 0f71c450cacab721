"""What was promised to scripts and users is there: metric names, axis names, study files."""

import pytest
from rooms import ROOT

from planner.axes import AXES
from planner.metrics import METRICS, metric_names
from planner.study.read import read_study

BOTH = """devices stranded_devices nodes supernodes resident_bytes headroom_bytes device_mean_w
device_peak_w it_mean_w it_peak_w provisioned_w facility_mean_w facility_peak_w facility_mwh
capex_usd usd_per_year usd usd_per_device_hour usd_per_mtoken operational_kgco2e embodied_kgco2e
kgco2e kgco2e_per_mtoken water_l peak_facility_mw goodput_frac unverified_facts validated"""

TRAIN = """step_s tokens_per_s tokens_per_s_per_device model_flop_per_s_per_device mfu_frac days
device_hours"""

SERVE = """ttft_s_mean ttft_s_p50 ttft_s_p95 ttft_s_p99 tpot_s_mean tpot_s_p50 tpot_s_p95
tpot_s_p99 e2e_s_mean e2e_s_p50 e2e_s_p95 e2e_s_p99 output_tokens_per_s tokens_per_s_per_device
capacity_requests_per_s utilisation_frac replicas usd_per_mtoken_input usd_per_mtoken_output
usd_per_mtoken_total j_per_token"""

HARDWARE = """peak_flop_per_s stranded_w stranded_usd npv_usd breakeven_utilisation_frac
payback_months"""

AXIS_NAMES = """accelerator devices nodes supernodes supernode_devices scaleup_gbytes_per_s
scaleup_topology scaleout_gbytes_per_s scaleout_fabric oversubscription tensor_parallel
pipeline_parallel context_parallel data_parallel expert_parallel expert_tensor_parallel precision
placement collective power_cap_frac recompute zero_stage offload schedule virtual_stages
micro_batch_sequences global_batch_sequences batching max_batch token_budget kv_precision
attention_data_parallel replicas speculative prefix_cache kv_tiers routing compute profile"""

STUDIES = sorted((ROOT / "studies").glob("*.toml"))


@pytest.mark.parametrize(
    ("kind", "promised"),
    [("train", BOTH + " " + TRAIN), ("serve", BOTH + " " + SERVE), ("hardware", HARDWARE)],
)
def test_every_promised_metric_is_in_the_table(kind, promised):
    """A script that reads the JSON would meet a missing key after an update."""
    assert set(promised.split()) <= set(metric_names(kind))


@pytest.mark.parametrize("kind", ["train", "serve"])
def test_every_predicted_metric_has_its_band(kind):
    """A prediction would be shown as if it were exact."""
    names = set(metric_names(kind))
    predicted = [metric.name for metric in METRICS.values() if metric.is_predicted]
    bands = {f"{name}_{end}" for name in predicted if name in names for end in ("low", "high")}
    assert bands <= names


def test_every_promised_axis_is_in_the_table():
    """A study file that was written for an earlier version would be refused."""
    names = set(AXES) | {name.split(".")[-1] for name in AXES}
    assert set(AXIS_NAMES.split()) <= names


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_file_can_be_read(path):
    """An example that a new user copies would be refused."""
    assert read_study(path).name


def test_the_studies_folder_holds_study_files_only():
    """A study could depend on something that is no study."""
    others = {
        path.name
        for path in (ROOT / "studies").iterdir()
        if path.suffix != ".toml" and path.name not in ("__init__.py", "__pycache__")
    }
    assert not others
