"""Each option of the cost of owning beside a bill worked out by hand, in dollars a year.

128 servers of 8 H100 at 255,237.04 dollars: 32,670,341.12. No interest, nothing sold at the end;
1.1 MW of IT peak and 10% above it are 1.21 MW reserved.
"""

from dataclasses import replace

import pytest
from small_bill import BARE, column, cost, fabric, hardware_bill, prices, servers, terms

from costdata.depreciation import DEPRECIATION

SERVERS_USD = 32_670_341.12
PB, NODES = 3.0, 2.0
WITH_STORAGE = replace(
    hardware_bill(column(1024), servers(), fabric(), BARE),
    storage_pb=column(PB),
    head_nodes=column(NODES),
)
NETWORK_USD = 5_000_000.0
STORAGE_USD = PB * 10_000.0


def year(**changed):
    """The yearly bill of the cluster by term; its network costs 5 million."""
    ports, switches = WITH_STORAGE.ports[0], WITH_STORAGE.switches[0]
    network = prices(switch_usd=0.0, port_links_usd=NETWORK_USD / ports)
    assert ports > 0 < switches
    free = {"wacc_frac": 0.0, "residual_frac": 0.0}
    found = cost(WITH_STORAGE, terms(**free | changed), network).year.terms
    return {name: float(usd[0]) for name, usd in found.items()}


def code(name):
    return DEPRECIATION.index(name)


WHOLE_USD = SERVERS_USD + NETWORK_USD + STORAGE_USD + NODES * 20_000
OPTIONS = {
    "tax, written off in a line at no interest": (
        "servers", {"tax_frac": 0.26, "depreciation_code": code("straight_line")},
        SERVERS_USD / 4,  # (1 - 0.26) / (1 - 0.26): what is written off in full costs no tax
    ),
    "tax, 4 years in a line at 8%": (
        "servers",
        {"tax_frac": 0.26, "wacc_frac": 0.08, "depreciation_code": code("straight_line")},
        # worth of a quarter a year 0.82803171; (1 - 0.26 x it) / 0.74 x annuity 0.30192080
        SERVERS_USD * 0.30192080 * (1 - 0.26 * 0.82803171) / 0.74,
    ),
    "tax, MACRS of three years at 8%": (
        "servers", {"tax_frac": 0.26, "wacc_frac": 0.08, "depreciation_code": code("macrs_3")},
        SERVERS_USD * 0.30192080 / 0.74
        * (1 - 0.26 * (0.3333 / 1.08 + 0.4445 / 1.1664 + 0.1481 / 1.259712 + 0.0741 / 1.36048896)),
    ),
    "credit of 30%": (
        "servers", {"tax_frac": 0.26, "credit_frac": 0.3},
        SERVERS_USD / 4 * (1 - 0.3 - 0.26 * 0.85) / 0.74,
    ),
    "bonus of 40% at 8%, the rest in MACRS of three years": (
        "servers",
        {"tax_frac": 0.26, "wacc_frac": 0.08, "bonus_frac": 0.4,
         "depreciation_code": code("macrs_3")},
        SERVERS_USD * 0.30192080 / 0.74
        * (1 - 0.26 * 0.4 / 1.08 - 0.26 * 0.6
           * (0.3333 / 1.08 + 0.4445 / 1.1664 + 0.1481 / 1.259712 + 0.0741 / 1.36048896)),
    ),
    "software": ("software", {"software_usd_per_device_year": 4500}, 1024 * 4500.0),
    "insurance": ("insurance", {"insurance_frac": 0.01}, 0.01 * WHOLE_USD),
    "insurance of an own hall too": (
        "insurance",
        {"insurance_frac": 0.01, "facility_usd_per_w": 12, "colo_usd_per_kw_month": 0},
        0.01 * (WHOLE_USD + 12 * 1.21e6),
    ),
    "own hall for 20 years": (
        "facility",
        {"facility_usd_per_w": 12, "facility_life_years": 20, "colo_usd_per_kw_month": 0},
        12 * 1.21e6 / 20,
    ),
    "own hall, taxed, written off in a line over its own life at 8%": (
        "facility",
        {"facility_usd_per_w": 12, "facility_life_years": 20, "colo_usd_per_kw_month": 0,
         "wacc_frac": 0.08, "tax_frac": 0.26,
         "facility_depreciation_code": code("straight_line")},
        # 20 years at 8%: annuity 0.10185221, so a twentieth a year is worth 0.49090737
        12 * 1.21e6 * 0.10185221 * (1 - 0.26 * 0.49090737) / 0.74,
    ),
    "network bought again every 5 years": (
        "network", {"network_life_years": 5}, NETWORK_USD / 5,
    ),
    "storage bought again every 3 years": (
        "storage", {"storage_life_years": 3}, STORAGE_USD / 3,
    ),
}  # fmt: skip
"""Term of the yearly bill, what is changed, and what the term comes to by hand [$/year]."""


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_the_bill_by_hand(option):
    """An option would be read, and billed as another."""
    term, changed, usd = OPTIONS[option]
    assert year(**changed)[term] == pytest.approx(usd, rel=1e-7)


@pytest.mark.parametrize(
    ("life", "term"),
    [("network_life_years", "network"), ("storage_life_years", "storage"),
     ("facility_life_years", "facility")],
)  # fmt: skip
def test_a_life_of_one_class_leaves_the_others(life, term):
    """A shorter life of the network would make servers dearer too."""
    hall = {"facility_usd_per_w": 12, "colo_usd_per_kw_month": 0}
    before, after = year(**hall), year(**hall, **{life: 2})
    assert after[term] > before[term]
    assert {name: usd for name, usd in after.items() if name != term} == {
        name: usd for name, usd in before.items() if name != term
    }
