"""90% bands of serving metrics, from what the closed form missed on measured runs.

The load is given, so an error of speed is an error of the fleet: of replicas, devices, watts and
money. It is joined, as independent logarithms, with the bands of what else they rest on.
"""

from __future__ import annotations

from planner.bands import Band, bands, joined, serving_bands

SPEED = "output_tokens_per_s"
"""The quantity of serving_bands.csv that a fleet scales with, inversely."""

OF_A_FLEET = {
    "replicas": (),
    "utilisation_frac": (),
    "prefix_hit_frac": (),
    "j_per_token": ("it_mean_w",),
    "it_mean_w": ("it_mean_w",),
    "it_peak_w": ("it_peak_w",),
    "provisioned_w": ("it_peak_w",),
    "facility_mean_w": ("facility_mean_w",),
    "facility_peak_w": ("facility_peak_w",),
    "peak_facility_mw": ("facility_peak_w",),
    "facility_mwh": ("facility_mean_w",),
    "capex_usd": ("capex_usd",),
    "usd_per_year": ("usd_per_year",),
    "usd": ("usd_per_year",),
    "usd_per_mtoken": ("usd_per_year",),
    "usd_per_mtoken_input": ("usd_per_year",),
    "usd_per_mtoken_output": ("usd_per_year",),
    "usd_per_mtoken_total": ("usd_per_year",),
    "operational_kgco2e": ("facility_mean_w", "grid_kgco2e_per_kwh"),
    "embodied_kgco2e": ("embodied_kgco2e",),
    "water_l": ("facility_mean_w", "wue_l_per_kwh"),
}
"""Metrics that grow with the fleet, and the bands of what else they rest on."""

OF_SPEED = ("capacity_requests_per_s", "tokens_per_s_per_device")
AS_OFFERED = ("output_tokens_per_s",)
"""What a fleet that keeps up writes is what is asked of it."""

LATENCIES = {"ttft_s": ("ttft_s",), "tpot_s": ("tpot_s",), "e2e_s": ("ttft_s", "tpot_s")}
"""Latencies and the bands whose wider ends are theirs."""


def serve_band_of(name: str, regime: str) -> Band | None:
    """Factors (low, high) of a serving metric; None where no spread is known."""
    known = serving_bands(regime)
    latency = name.rpartition("_")[0]
    if latency in LATENCIES:
        ends = [known[part] for part in LATENCIES[latency]]
        return min(low for low, _ in ends), max(high for _, high in ends)
    speed = known[SPEED]
    if name in OF_SPEED:
        return speed
    if name in AS_OFFERED:
        return 1.0, 1.0
    if name in OF_A_FLEET:
        rest = [bands(regime)[part] for part in OF_A_FLEET[name]]
        return joined((1.0 / speed[1], 1.0 / speed[0]), *rest)
    return bands(regime).get(name)
