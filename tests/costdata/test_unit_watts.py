"""Watts of a node, a rack and a domain: what stands in each, in three kinds."""

import pytest
from small_bill import BARE, column, fabric, servers

from costdata.hardware_bill import Watts, hardware_bill
from costdata.unit_watts import Wholes, totals


def test_a_node_a_rack_and_a_domain_are_sums_of_what_stands_in_them():
    """A rack would be ordered for its devices alone, or a domain without its switches.

    Eight devices of 1,000 W with a card of 25 W each: 8.2 kW; 32 in a rack; 64 in a domain with
    a sixteenth of 32 switches at 300 W.
    """
    bill = hardware_bill(column(1024, 1), servers(1), fabric(1), BARE)
    bill = type(bill)(**{**vars(bill), "domain_switches": column(32, 1)})
    watts = Watts(*(column(x, 1) for x in (100, 1, 25, 900, 24, 650, 500, 300, 0, 0)))
    wholes = Wholes(column(8, 1), column(32, 1), column(64, 1), column(1, 1))
    found = {n: float(v[0]) for n, v in totals(bill, watts, wholes, 700.0, 1000.0, 0.1).items()}
    assert found["node_peak_w"] == 8200
    assert found["node_mean_w"] == 8 * 725
    assert found["node_provisioned_w"] == pytest.approx(9020)
    assert found["rack_peak_kw"] == pytest.approx(32.8)
    assert found["supernode_peak_kw"] == pytest.approx(65.6 + 0.6)
    assert found["supernode_provisioned_kw"] == pytest.approx(1.1 * 66.2)
