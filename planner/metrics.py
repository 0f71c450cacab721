"""What may be limited and optimised: one table of every metric, its unit and its good direction.

The same names stand in JSON, the database, the app and the report. How a metric is computed is
not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

BOTH = ("train", "serve", "mixed", "fleet", "hardware")
TRAIN = ("train", "mixed", "fleet")
SERVE = ("serve", "mixed", "fleet")
WORK = ("train", "serve", "mixed", "fleet")
HARDWARE = ("hardware", "fleet")

OWN_OR_RENT = ("breakeven_utilisation_frac", "npv_zero_utilisation_frac", "payback_months")
"""What a training study knows of owning against renting, too."""


@dataclass(frozen=True)
class Metric:
    """One figure of merit.

    Parameters
    ----------
    name : with its unit, as everywhere
    unit : "" for counts and ratios
    kinds : kinds of study that report it
    direction : "minimise", "maximise" or "neither": what is better
    stage : "physics" or "costing": prices, sites and carbon change only the latter
    doc : what it is
    is_predicted : True where X_low and X_high (90 % band) come with it
    """

    name: str
    unit: str
    kinds: tuple[str, ...]
    direction: str
    stage: str
    doc: str
    is_predicted: bool = False


def _physical() -> Iterator[Metric]:
    low, high = "minimise", "maximise"
    yield Metric("devices", "", BOTH, low, "physics", "chips at work")
    yield Metric("stranded_devices", "", BOTH, low, "physics", "bought but not at work")
    yield Metric("nodes", "", BOTH, low, "physics", "hosts bought")
    yield Metric("supernodes", "", BOTH, low, "physics", "scale-up domains bought")
    yield Metric("resident_bytes", "B", BOTH, low, "physics", "on the heaviest device", True)
    yield Metric("headroom_bytes", "B", BOTH, high, "physics", "free on the heaviest device", True)
    yield Metric("device_mean_w", "W", BOTH, low, "physics", "one device, mean", True)
    yield Metric("device_peak_w", "W", BOTH, low, "physics", "one device, busiest second", True)
    yield Metric("it_mean_w", "W", BOTH, low, "physics", "all IT, mean", True)
    yield Metric("it_peak_w", "W", BOTH, low, "physics", "all IT, busiest second", True)
    yield Metric("provisioned_w", "W", BOTH, low, "physics", "power to reserve for the IT", True)
    yield Metric("racks", "", BOTH, low, "physics", "racks of servers, by height and power")
    yield Metric("rack_kw", "kW", BOTH, low, "physics", "IT power to provide for a full rack")
    for whole, unit, doc in (
        ("node", "W", "one host, all devices at work"),
        ("rack", "kW", "a full rack of servers"),
        ("supernode", "kW", "a scale-up domain with what joins it"),
    ):
        for kind, words in (("mean", "mean"), ("peak", "busiest second")):
            name = f"{whole}_{kind}_{unit.lower()}"
            yield Metric(name, unit, BOTH, low, "physics", f"{doc}, {words}")
        if whole != "rack":
            name = f"{whole}_provisioned_{unit.lower()}"
            yield Metric(name, unit, BOTH, low, "physics", f"{doc}, to reserve")
    doc = "1 where coolant has to come to the chips"
    yield Metric("liquid_cooled", "", BOTH, low, "physics", doc)
    yield Metric("goodput_frac", "", BOTH, high, "physics", "useful share of wall time", True)


def _costed() -> Iterator[Metric]:
    low = "minimise"
    rows = (
        ("facility_mean_w", "W", "at the meter, mean"),
        ("facility_peak_w", "W", "at the meter, busiest second"),
        ("peak_facility_mw", "MW", "at the meter, busiest second"),
        ("facility_mwh", "MWh", "energy at the meter over the job"),
        ("capex_usd", "USD", "paid up front"),
        ("usd_per_year", "USD/year", "capital recovery and running cost"),
        ("usd", "USD", "whole cost of the job"),
        ("usd_per_device_hour", "USD/h", "one device for an hour"),
        ("usd_per_mtoken", "USD", "a million tokens"),
        ("operational_kgco2e", "kgCO2e", "from electricity"),
        ("embodied_kgco2e", "kgCO2e", "from making the hardware, share of this job"),
        ("kgco2e", "kgCO2e", "operational and embodied"),
        ("kgco2e_per_mtoken", "kgCO2e", "a million tokens"),
        ("water_l", "L", "on site and at the power stations"),
    )
    for name, unit, doc in rows:
        yield Metric(name, unit, BOTH, low, "costing", doc, is_predicted=True)
    for name, unit, direction, doc in (
        ("matched_frac", "", "maximise", "of the energy, met by its own sources in the same hour"),
        ("carbon_free_frac", "", "maximise", "the same with what is carbon-free of the grid"),
        ("water_onsite_l", "L", low, "evaporated by the site's own cooling"),
        ("water_offsite_l", "L", low, "evaporated by the power stations"),
    ):
        yield Metric(name, unit, BOTH, direction, "costing", doc)
    yield Metric("unverified_facts", "", BOTH, low, "costing", "facts used that nobody checked")
    yield Metric("validated", "", BOTH, "maximise", "physics", "1 inside the validated region")


def _train() -> Iterator[Metric]:
    low, high = "minimise", "maximise"
    rows = (
        ("step_s", "s", low, "one optimiser step"),
        ("tokens_per_s", "1/s", high, "trained by all devices"),
        ("model_flop_per_s_per_device", "1/s", high, "useful rate, recompute not counted"),
        ("mfu_frac", "", high, "useful rate over dense peak, causal attention counted half"),
        ("days", "day", low, "calendar time of the job, failures included"),
        ("device_hours", "h", low, "devices times hours"),
    )
    for name, unit, direction, doc in rows:
        yield Metric(name, unit, TRAIN, direction, "physics", doc, is_predicted=True)
    for name, unit, direction, doc in (
        ("days_p10", "day", low, "by which one run of ten has ended, failures falling well"),
        ("days_p50", "day", low, "by which half of all such runs have ended"),
        ("days_p90", "day", low, "by which nine runs of ten have ended, failures falling badly"),
        ("job_mtbf_h", "h", high, "between failures that stop the job"),
        ("checkpoint_s", "s", low, "that training stands for one checkpoint"),
        ("recovery_s", "s", low, "from a failure until training goes on"),
        ("failures_per_day", "1/day", low, "that stop the job"),
        ("checkpoint_interval_s", "s", low, "of work between checkpoints, the best one"),
    ):
        yield Metric(name, unit, TRAIN, direction, "physics", doc)
    doc = "trained or written, over all devices"
    yield Metric("tokens_per_s_per_device", "1/s", WORK, high, "physics", doc, is_predicted=True)


def _serve() -> Iterator[Metric]:
    for quantity, doc in (
        ("ttft_s", "time to first token"),
        ("tpot_s", "time per output token"),
        ("e2e_s", "whole request"),
    ):
        for statistic in ("mean", "p50", "p95", "p99"):
            name = f"{quantity}_{statistic}"
            yield Metric(name, "s", SERVE, "minimise", "physics", f"{doc}, {statistic}", True)
    for name, unit, direction, stage, doc in (
        ("output_tokens_per_s", "1/s", "maximise", "physics", "written by all replicas"),
        ("capacity_requests_per_s", "1/s", "maximise", "physics", "before the limits break"),
        ("utilisation_frac", "", "maximise", "physics", "busy share of a replica"),
        ("replicas", "", "minimise", "physics", "copies of the service"),
        ("prefix_hit_frac", "", "maximise", "physics", "prompt tokens that caches have"),
        ("usd_per_mtoken_input", "USD", "minimise", "costing", "a million prompt tokens"),
        ("usd_per_mtoken_output", "USD", "minimise", "costing", "a million output tokens"),
        ("usd_per_mtoken_total", "USD", "minimise", "costing", "a million tokens of either kind"),
        ("j_per_token", "J", "minimise", "physics", "energy of an output token"),
    ):
        yield Metric(name, unit, SERVE, direction, stage, doc, is_predicted=True)
    for name, doc in (
        ("kgco2e_per_mtoken_input", "a million prompt tokens, by the time of steps"),
        ("kgco2e_per_mtoken_output", "a million output tokens, by the time of steps"),
    ):
        yield Metric(name, "kgCO2e", ("serve",), "minimise", "costing", doc)
    doc = "the same tokens at the lowest API list price"
    yield Metric("api_usd", "USD", ("serve",), "minimise", "costing", doc)
    doc = "that over the cost of the plan: above 1 the plan is cheaper"
    yield Metric("api_over_own_frac", "", ("serve",), "maximise", "costing", doc)


def _hardware() -> Iterator[Metric]:
    doc = "dense, of the study's precision, under the power cap"
    yield Metric("peak_flop_per_s", "1/s", HARDWARE, "maximise", "physics", doc)
    doc = "servers or racks bought whole"
    yield Metric("purchase_units", "", HARDWARE, "minimise", "physics", doc)
    doc = "worth today of what the worst futures of a purchase plan cost, in their mean"
    yield Metric("tail_npv_usd", "USD", ("fleet",), "minimise", "costing", doc)
    for name, unit, direction, doc in (
        ("stranded_w", "W", "minimise", "power of the limit that is not used, at the meter"),
        ("stranded_usd", "USD", "minimise", "money of the limit that buys no whole unit"),
        ("npv_usd", "USD", "maximise", "worth today of owning over renting"),
        ("own_npv_usd", "USD", "minimise", "worth today of what owning costs"),
        ("rent_npv_usd", "USD", "minimise", "worth today of what renting costs"),
        (
            "breakeven_utilisation_frac",
            "",
            "minimise",
            "owning at this use over renting all hours",
        ),
        (
            "npv_zero_utilisation_frac",
            "",
            "minimise",
            "use at which owning costs what renting does",
        ),
        ("payback_months", "month", "minimise", "until owning has repaid, undiscounted"),
        ("stranded_mw", "MW", "minimise", "power paid for and not used"),
    ):
        kinds = ("train", *HARDWARE) if name in OWN_OR_RENT else HARDWARE
        yield Metric(name, unit, kinds, direction, "costing", doc, name.endswith("npv_usd"))


def _mixed() -> Iterator[Metric]:
    for name, unit, direction, doc in (
        ("useful_device_hours_per_day", "h", "maximise", "of training, what stops lose taken off"),
        ("train_device_hours_per_day", "h", "maximise", "of training in whole blocks"),
        ("rest_device_hours_per_day", "h", "maximise", "left by serving, whatever the block"),
        ("trained_frac", "", "maximise", "of that, what whole blocks take"),
        ("lost_device_hours_per_day", "h", "minimise", "of training, lost by stops"),
        ("stops_per_day", "", "minimise", "blocks of training that give way to serving"),
        ("serve_device_hours_per_day", "h", "minimise", "of serving, in whole nodes"),
        ("reserve_device_hours_per_day", "h", "minimise", "kept free for a rise of serving"),
        ("idle_device_hours_per_day", "h", "minimise", "that neither has"),
    ):
        yield Metric(name, unit, ("mixed",), direction, "physics", doc)


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (*_physical(), *_costed(), *_train(), *_serve(), *_hardware(), *_mixed())
    }
)
"""Every metric by name; the bands X_low and X_high are not listed apart."""

SHORTFALL = Metric(
    "target_shortfall_frac", "", BOTH, "minimise", "costing", "worst miss of a target, over it"
)
"""What rows have where their study has [targets], and only there."""


@dataclass(frozen=True)
class Pinnable:
    """A derived quantity that a study may set instead of having it computed.

    `is_per_chip` ones may be a table, one figure for each accelerator.
    """

    name: str
    unit: str
    least: float
    most: float
    doc: str
    kinds: tuple[str, ...] = WORK
    is_per_chip: bool = False


def _of_hardware() -> Iterator[Pinnable]:
    """Figures of a server or rack that a buyer knows better than a catalogue."""
    for name, unit, least, most, doc, is_per_chip in (
        ("unit_w", "W", 10.0, 1e8, "one server or rack as sold, all devices at full power", True),
        ("unit_other_w", "W", 0.0, 1e8, "one server or rack without its devices", True),
        ("capped_performance_frac", "", 1e-3, 1.0, "speed under a power cap below 1", True),
        ("network_overhead_frac", "", 0.0, 2.0, "network and storage over servers, watts", False),
        ("it_load_frac", "", 1e-3, 1.0, "mean IT power over its peak", False),
    ):
        yield Pinnable(name, unit, least, most, doc, ("hardware",), is_per_chip)


PINNABLE: Mapping[str, Pinnable] = MappingProxyType(
    {
        pin.name: pin
        for pin in (
            Pinnable("mfu_frac", "", 1e-6, 1.0, "useful rate over dense peak"),
            Pinnable("goodput_frac", "", 1e-6, 1.0, "useful share of wall time"),
            Pinnable("step_s", "s", 1e-9, 1e9, "one optimiser step"),
            Pinnable("model_flop_per_token", "flop", 1.0, 1e18, "useful work of a trained token"),
            Pinnable("device_mean_w", "W", 1.0, 1e5, "one device, mean"),
            Pinnable("device_peak_w", "W", 1.0, 1e5, "one device, busiest second", BOTH),
            *_of_hardware(),
        )
    }
)
"""What [pin] may hold in this version, with bounds that catch a slip of unit."""


def metrics_of(kind: str) -> tuple[Metric, ...]:
    """The metrics that a kind of study reports, in order."""
    return tuple(metric for metric in METRICS.values() if kind in metric.kinds)


def metric_names(kind: str) -> tuple[str, ...]:
    """Names a limit or an objective may use, bands included."""
    names: list[str] = []
    for metric in metrics_of(kind):
        names.append(metric.name)
        if metric.is_predicted:
            names.extend((f"{metric.name}_low", f"{metric.name}_high"))
    return tuple(names)


def find_metric(name: str) -> Metric:
    """The metric of a name; a band is described by the metric it belongs to.

    Raises
    ------
    KeyError : no such metric
    """
    if name in METRICS or name == SHORTFALL.name:
        return METRICS.get(name, SHORTFALL)
    return METRICS[name.removesuffix("_low").removesuffix("_high")]


def can_be_negative(name: str) -> bool:
    """True where a value below 0 means something: money may be earned, room may lack."""
    metric = find_metric(name)
    return metric.unit.startswith("USD") or metric.name == "headroom_bytes"


def is_at_least(name: str) -> bool:
    """True where a limit is the least allowed value: what is better when it is larger."""
    return find_metric(name).direction == "maximise"
