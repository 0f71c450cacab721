"""The tables of a study file as frozen dataclasses: their keys, types, bounds and defaults.

Each key's description is what an error message says is wanted. Axes, limits and pins have tables
of their own (`axes`, `metrics`), because their keys are names of quantities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from planner.study.operations import ServeOperations
from planner.study.supply import BillYear, EnergySource, EnergyTier, PueCurve, TimeOfUse

PUBLISHED_BATCH_TOKENS = 15_360 * 4_096.0  # DeepSeek-V3 report, arXiv 2412.19437, section 4.2
"""Default of max_global_batch_tokens: the largest batch we know a published run to have held."""

PEAK_WINDOW_S = 60.0  # our choice: bursts that last longer than a request cannot be waited out
PEAK_UTILISATION_FRAC = 0.7  # our choice: the step from mean to worst minute of the public traces

CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False)

Text = Annotated[str, Field(strict=True, min_length=1)]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
# Nobody pays, or waits for, more than 1e18 of anything; products of larger ones end in infinity.
Overload = Annotated[float, Field(strict=True, ge=1, le=100, allow_inf_nan=False)]
Amount = Annotated[float, Field(strict=True, gt=0, le=1e18, allow_inf_nan=False)]
# Less than ten hours is a slip of unit: the worst run published had 13,605 (OPT-175B, 992 A100).
MeanTime = Annotated[float, Field(strict=True, ge=10, le=1e12, allow_inf_nan=False)]
AtLeastZero = Annotated[float, Field(strict=True, ge=0, le=1e18, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Switch = Annotated[bool, Field(strict=True)]

Kind = Literal["train", "serve", "mixed", "fleet", "hardware"]
Carbon = Literal["location_average", "location_marginal", "market"]
Embodied = Literal["pcf", "act", "boavizta"]
Money = Literal["nominal", "real"]
Acquire = Literal["buy", "lease", "reserved", "on_demand", "spot"]
SearchDriver = Literal["auto", "sweep", "evolve", "sample"]
WriteOff = Literal["straight_line", "macrs_3", "macrs_5", "macrs_7", "macrs_15", "macrs_39"]
RentPlan = Literal["reserved", "on_demand", "spot"]


@dataclass(frozen=True, config=CONFIG)
class Header:
    """The table [study]."""

    name: Annotated[Text, Field(description='a name in quotes, e.g. name = "my-study"')]
    kind: Annotated[Kind, Field(description='"train", "serve", "mixed", "fleet" or "hardware"')]
    seed: Annotated[
        int, Field(strict=True, ge=0, description="a whole number of at least 0, e.g. seed = 1")
    ] = 0
    tables: Annotated[
        str, Field(strict=True, description="a folder of your own tables, from the study's folder")
    ] = ""
    preset: Annotated[
        str, Field(strict=True, description="a name of [presets.NAME], to lay over the study")
    ] = ""


@dataclass(frozen=True, config=CONFIG)
class PowerLaw:
    """Loads of experts that fall as a power of their rank among them."""

    power_law: Annotated[
        float,
        Field(strict=True, ge=0, le=3, allow_inf_nan=False, description="an exponent, 0 to 3"),
    ]


@dataclass(frozen=True, config=CONFIG)
class TrainWorkload:
    """A model to train on some tokens.

    `attention` is "flash" (fused, causal half) or "unfused" (full square, as before 2023).
    `mtp` adds the model's multi-token-prediction layers to the work and the memory.
    `expert_imbalance` is how unevenly tokens fall on experts, beyond evenly random routing:
    "uniform", a factor on the busiest rank, or { power_law = exponent } of the experts' loads;
    left out, the catalogue's planning figure. `stragglers` is the slowest device's step over the
    mean one's in a replay, drawn unless given.
    """

    model: Annotated[
        Text, Field(description='a catalogue name or a path to config.json, e.g. "deepseek-v3"')
    ]
    tokens: Annotated[Amount, Field(description="how many tokens to train on, e.g. 14.8e12")]
    tokens_per_sequence: Annotated[
        Count, Field(description="a whole number of tokens, e.g. tokens_per_sequence = 4096")
    ]
    kind: Annotated[Literal["train"], Field(description='kind = "train"')] = "train"
    max_global_batch_tokens: Annotated[
        Amount, Field(description="a number of tokens above 0, e.g. 65e6")
    ] = PUBLISHED_BATCH_TOKENS
    mtp: Annotated[Switch, Field(description="true or false")] = False
    attention: Annotated[
        Literal["flash", "unfused"], Field(description='"flash" or "unfused"')
    ] = "flash"
    expert_imbalance: Annotated[
        Literal["uniform"] | Overload | PowerLaw | None,
        Field(description='"uniform", a number of at least 1, or { power_law = 0.3 }'),
    ] = None
    stragglers: Annotated[
        Overload | None, Field(description="a number of at least 1, e.g. stragglers = 1.0")
    ] = None


@dataclass(frozen=True, config=CONFIG)
class Scale:
    """How a trace is made larger: copies on top of each other, each moved in time, or faster.

    `shift_s` is how far apart in time copies are spread; None takes a minute.
    """

    times: Annotated[Amount, Field(description="a number above 0, e.g. times = 100")]
    by: Annotated[Literal["superpose", "compress"], Field(description='"superpose" or "compress"')]
    shift_s: Annotated[AtLeastZero | None, Field(description="seconds, e.g. shift_s = 60")] = None


@dataclass(frozen=True, config=CONFIG)
class ServeWorkload:
    """A stream of requests to answer within latencies.

    `trace` is a catalogue trace, a file, or a table of distributions (arrivals, prompt_tokens,
    output_tokens), `slo` a table of latencies and their bounds, or of classes of them; what is
    inside both is read by `study_serve`. The fleet is sized on the busiest `peak_window_s`, of
    which it uses at most `peak_utilisation_frac` of its capacity, and meets every bound there
    with `survive_failures` hosts out of work. `draft_model` drafts where an axis says so, and
    `draft_acceptance_frac` of the tokens drafted ahead are right, one by one; None takes what was
    published of the method. What happens to the fleet meanwhile is in `operations`.
    """

    model: Annotated[
        Text, Field(description='a catalogue name or a path to config.json, e.g. "llama-3.1-70b"')
    ]
    trace: Annotated[
        Text | Mapping[str, object],
        Field(description="a trace, a file, or { arrivals, prompt_tokens, output_tokens }"),
    ]
    kind: Annotated[Literal["serve"], Field(description='kind = "serve"')] = "serve"
    scale: Annotated[
        Scale | None, Field(description='{ times = 100, by = "superpose" | "compress" }')
    ] = None
    slo: Annotated[
        Mapping[str, object],
        Field(description="latencies and bounds, { ttft_s_p95 = 2.0 }, or classes of them"),
    ] = field(default_factory=dict)
    engine: Annotated[
        Text, Field(description='a serving engine of engines.csv, e.g. engine = "vllm"')
    ] = "vllm"
    peak_window_s: Annotated[
        Amount, Field(le=86_400, description="seconds of the busiest window, e.g. 60")
    ] = PEAK_WINDOW_S
    peak_utilisation_frac: Annotated[
        Fraction,
        Field(ge=0.01, description="share of its capacity a fleet uses at most, e.g. 0.7"),
    ] = PEAK_UTILISATION_FRAC
    survive_failures: Annotated[
        int,
        Field(strict=True, ge=0, le=1000, description="hosts that may fail at the peak, e.g. 1"),
    ] = 0
    draft_model: Annotated[
        Text | None, Field(description='a small model of the same vocabulary, e.g. "llama-3.1-8b"')
    ] = None
    draft_acceptance_frac: Annotated[
        float | None,
        Field(ge=0, le=1, description="share of drafted tokens that are right, e.g. 0.8"),
    ] = None
    operations: Annotated[
        ServeOperations,
        Field(description="a table of failures, ranks, admission, autoscale"),
    ] = field(default_factory=ServeOperations)


Workload = TrainWorkload | ServeWorkload


@dataclass(frozen=True, config=CONFIG)
class Costing:
    """The table [costing]; None stands for the catalogue's figure of the site or the part.

    `price_usd` is of servers alone, network and storage come on top; the `all_in_` prices hold
    everything that is bought.
    """

    site: Annotated[
        tuple[Text, ...], Field(description='a site or a list of sites, e.g. ["us-tx", "se"]')
    ] = ("us-avg",)
    acquire: Annotated[
        Acquire, Field(description='"buy", "lease", "reserved", "on_demand" or "spot"')
    ] = "buy"
    carbon: Annotated[
        Carbon, Field(description='"location_average", "location_marginal" or "market"')
    ] = "location_average"
    embodied: Annotated[Embodied, Field(description='"pcf", "act" or "boavizta"')] = "pcf"
    wacc_frac: Annotated[Fraction | None, Field(description="a share from 0 to 1")] = None
    usd_per_kwh: Annotated[
        AtLeastZero | None, Field(le=10, description="dollars (not cents) per kWh, from 0 to 10")
    ] = None
    demand_usd_per_kw_month: Annotated[
        AtLeastZero | None, Field(description="a price of at least 0")
    ] = None
    minimum_billing_frac: Annotated[
        Fraction | None, Field(description="share of the contract that is billed, from 0 to 1")
    ] = None
    contract_mw: Annotated[
        Amount | None, Field(description="MW contracted at the meter, above 0")
    ] = None
    past_peak_mw: Annotated[
        Amount | None, Field(description="MW, highest demand of the months before, above 0")
    ] = None
    ratchet_frac: Annotated[
        Fraction | None, Field(description="share of the past peak that stays billed, 0 to 1")
    ] = None
    minimum_take_frac: Annotated[
        Fraction | None, Field(description="share of the contract's energy paid, from 0 to 1")
    ] = None
    pue: Annotated[
        float | None,
        Field(strict=True, ge=1, le=5, description="facility over IT energy, from 1 to 5"),
    ] = None
    pue_curve: Annotated[
        PueCurve | None, Field(description="{ fixed_frac = 0.06, proportional_frac = 0.12 }")
    ] = None
    power_oversubscription: Annotated[
        float | None,
        Field(strict=True, ge=1, le=3, description="peak over provided power, from 1 to 3"),
    ] = None
    grid_kgco2e_per_kwh: Annotated[
        AtLeastZero | None, Field(le=3, description="kgCO2e per kWh, from 0 to 3 (not grams)")
    ] = None
    market_kgco2e_per_kwh: Annotated[
        AtLeastZero | None, Field(le=3, description="kgCO2e per kWh of a contract, from 0 to 3")
    ] = None
    grid_cfe_frac: Annotated[
        Fraction | None, Field(description="carbon-free share of the grid, from 0 to 1")
    ] = None
    grid_cfe_by_hour: Annotated[
        tuple[Fraction, ...], Field(description="24 carbon-free shares of the grid, one an hour")
    ] = ()
    life_years: Annotated[Amount | None, Field(le=50, description="years, above 0 to 50")] = None
    network_life_years: Annotated[
        Amount | None, Field(le=50, description="years, above 0 to 50")
    ] = None
    storage_life_years: Annotated[
        Amount | None, Field(le=50, description="years, above 0 to 50")
    ] = None
    facility_life_years: Annotated[
        Amount | None, Field(le=100, description="years, above 0 to 100")
    ] = None
    embodied_life_years: Annotated[
        Amount | None, Field(le=50, description="years, above 0 to 50")
    ] = None
    residual_frac: Annotated[Fraction | None, Field(description="a share from 0 to 1")] = None
    maintenance_frac: Annotated[
        Fraction | None, Field(description="a share of capex per year, from 0 to 1")
    ] = None
    insurance_frac: Annotated[
        Fraction | None, Field(description="a share of capex per year, from 0 to 1")
    ] = None
    software_usd_per_device_year: Annotated[
        AtLeastZero | None, Field(le=1e6, description="dollars a year and device, at least 0")
    ] = None
    tax_frac: Annotated[
        Fraction | None, Field(lt=1, description="income tax, a share from 0 to below 1")
    ] = None
    depreciation: Annotated[
        WriteOff | None, Field(description='"straight_line" or "macrs_3", _5, _7, _15: IT')
    ] = None
    facility_depreciation: Annotated[
        WriteOff | None,
        Field(description='"straight_line" or "macrs_3", _5, _7, _15, _39: building'),
    ] = None
    credit_frac: Annotated[
        Fraction | None, Field(description="investment credit, a share of capex from 0 to 1")
    ] = None
    bonus_frac: Annotated[
        Fraction | None, Field(description="share written off in year 1, from 0 to 1")
    ] = None
    utilisation_frac: Annotated[
        Fraction | None, Field(ge=1e-4, description="share of hours at work, from 0.0001 to 1")
    ] = None
    colo_usd_per_kw_month: Annotated[
        AtLeastZero | None, Field(description="a price of at least 0")
    ] = None
    facility_usd_per_w: Annotated[
        AtLeastZero | None, Field(le=100, description="own building, $ per IT W, from 0 to 100")
    ] = None
    facility_kgco2e_per_w: Annotated[
        AtLeastZero | None, Field(description="kgCO2e of the building per IT W, at least 0")
    ] = None
    staff_usd_per_year: Annotated[
        AtLeastZero | None, Field(description="a cost of at least 0")
    ] = None
    rent_usd_per_device_hour: Annotated[
        AtLeastZero | None, Field(le=50, description="a price per hour and device, from 0 to 50")
    ] = None
    rent_plan: Annotated[
        RentPlan | None,
        Field(description='"reserved", "on_demand" or "spot": what a purchase is compared with'),
    ] = None
    api_usd_per_mtoken_input: Annotated[
        AtLeastZero | None, Field(le=1000, description="a quote for a million prompt tokens")
    ] = None
    api_usd_per_mtoken_output: Annotated[
        AtLeastZero | None, Field(le=1000, description="a quote for a million output tokens")
    ] = None
    money: Annotated[Money, Field(description='"nominal", or "real" for dollars of today')] = (
        "nominal"
    )
    inflation_frac: Annotated[
        Fraction | None, Field(description="a share per year, only with real money")
    ] = None
    carbon_usd_per_t: Annotated[AtLeastZero, Field(description="a price of at least 0")] = 0.0
    bill_year: Annotated[BillYear | None, Field(description="a calendar year, e.g. 2027")] = None
    time_of_use: Annotated[
        tuple[TimeOfUse, ...],
        Field(description="tables of hours and prices, [{ from_hour = 14, usd_per_kwh = 0.2 }]"),
    ] = ()
    energy_tiers: Annotated[
        tuple[EnergyTier, ...],
        Field(description="tables of monthly kWh and prices, the last without an end"),
    ] = ()
    sources: Annotated[
        tuple[EnergySource, ...],
        Field(description="tables of contracts or own plant with name, mw, usd_per_kwh, shape"),
    ] = ()
    price_usd: Annotated[
        Mapping[str, Amount],
        Field(description='accelerators and prices, { "H100-SXM" = 25000 }'),
    ] = field(default_factory=dict)
    all_in_usd_per_device: Annotated[
        Mapping[str, Amount],
        Field(description='accelerators and prices with everything, { "H100-SXM" = 40000 }'),
    ] = field(default_factory=dict)
    all_in_usd_per_unit: Annotated[
        Mapping[str, Amount],
        Field(description='accelerators and prices of their server or rack, { "GB200" = 3.9e6 }'),
    ] = field(default_factory=dict)


@dataclass(frozen=True, config=CONFIG)
class Objectives:
    """The table [objectives]: metrics, less is better or more is better."""

    minimise: Annotated[
        tuple[Text, ...], Field(description='a list of metrics, e.g. ["days", "usd"]')
    ] = ()
    maximise: Annotated[
        tuple[Text, ...], Field(description='a list of metrics, e.g. ["tokens_per_s"]')
    ] = ()


@dataclass(frozen=True, config=CONFIG)
class Search:
    """The table [search]: how candidates are found; a study need not say.

    `driver` "auto" goes by the size of the space and what an evaluation costs; `algorithm` None is
    the driver's own. `journal` is a file that optuna-dashboard can open, for "sample". `replay` is
    how many plans are replayed at most, None for as many as the kind of study is worth.
    """

    driver: Annotated[SearchDriver, Field(description='"auto", "sweep", "evolve" or "sample"')] = (
        "auto"
    )
    algorithm: Annotated[
        Literal["age_moea", "nsga2", "nsga3"] | None,
        Field(description='"nsga2" or "age_moea" to evolve, "nsga2" or "nsga3" to sample'),
    ] = None
    population: Annotated[
        int, Field(strict=True, ge=4, le=10_000, description="plans in a round, from 4 to 10000")
    ] = 50
    journal: Annotated[
        str, Field(strict=True, description="a file for Optuna's journal, from the study's folder")
    ] = ""
    replay: Annotated[
        int | None,
        Field(strict=True, ge=0, le=100_000, description="plans to replay at most, e.g. 50"),
    ] = None


@dataclass(frozen=True, config=CONFIG)
class Reliability:
    """The table [reliability]: failures and what is done against them; None is the catalogue's.

    `device_mtbf_h` stands for all components together, in device-hours per failure that stops the
    job; "unknown" gives no date but the rate of failures at which a limit still holds.
    `checkpoint` says whether training waits for the file or it is written in the background.
    `spare_coverage_frac` is the share of time in which enough hosts stand by; without it as many
    stand by as are under repair on average. `replaced` says whether a host is swapped inside its
    scale-up domain, or the whole domain stands by for it.
    """

    device_mtbf_h: Annotated[
        MeanTime | Literal["unknown"] | None,
        Field(description='device-hours per failure, at least 10, e.g. 50677, or "unknown"'),
    ] = None
    checkpoint: Annotated[
        Literal["storage", "background"], Field(description='"storage" or "background"')
    ] = "storage"
    checkpoint_s: Annotated[
        Amount | None, Field(description="seconds that training stands for one checkpoint")
    ] = None
    storage_gbytes_per_s: Annotated[
        Amount | None,
        Field(le=1e6, description="GB/s that the storage writes, all hosts together"),
    ] = None
    recovery_s: Annotated[
        Amount | None, Field(description="seconds to detect a failure and start again")
    ] = None
    repair_h: Annotated[
        AtLeastZero | None, Field(le=8760, description="hours until a host is back; 0: no spares")
    ] = None
    spare_coverage_frac: Annotated[
        Fraction | None, Field(gt=0, lt=1, description="share of time, above 0 and below 1")
    ] = None

    replaced: Annotated[
        Literal["host", "supernode"], Field(description='"host" or "supernode"')
    ] = "host"

    @property
    def is_mtbf_unknown(self) -> bool:
        """No date can be given."""
        return self.device_mtbf_h == "unknown"


OF_TRAINING_ALONE = ("checkpoint", "checkpoint_s", "storage_gbytes_per_s", "recovery_s")
"""Keys of [reliability] that only a run with checkpoints asks for."""


DEFAULT_OBJECTIVES: Mapping[str, Objectives] = MappingProxyType(
    {
        "train": Objectives(minimise=("days", "usd", "kgco2e")),
        "serve": Objectives(minimise=("usd_per_mtoken_total", "ttft_s_p95", "kgco2e")),
        "mixed": Objectives(
            minimise=("stops_per_day",), maximise=("useful_device_hours_per_day",)
        ),
        "fleet": Objectives(minimise=("own_npv_usd", "kgco2e")),
        "hardware": Objectives(minimise=("usd",), maximise=("peak_flop_per_s",)),
    }
)
"""What is compared when a study does not say."""
