"""Items of a bill of materials, as the orders of a plan and of a purchase plan count them."""

import numpy as np

from costdata import catalog
from planner.costing.items import ITEMS, UNITS, WORDS, counts_of
from planner.costing.purchase import Rows, bill_of, shelf_of
from simkernel.hardware import TOPOLOGIES


def test_every_part_that_joins_a_domain_is_counted():
    """A purchase plan paid for fibres that its order list did not have."""
    shelf, one = shelf_of(catalog.load(), ["H100-SXM"]), np.ones(1)
    rows = Rows(
        accelerator=np.zeros(1, int),
        devices=np.array([512]),
        supernode_devices=np.array([64]),
        used_per_domain=np.array([64]),
        oversubscription=one,
        fabric_code=np.zeros(1, int),
        scaleup_code=np.array([TOPOLOGIES.index("switched")]),
        scaleup_bytes_per_s=450e9 * one,
        chassis_devices=8 * one,
    )
    bill = bill_of(shelf, rows)
    assert bill.domain_fibres[0] > 0
    parts = ("switches", "optics", "fibres", "cables")
    wanted = sum(float(getattr(bill, f"domain_{part}")[0]) for part in parts)
    assert counts_of(bill)["domain_network"] == wanted


def test_every_item_has_a_word_and_a_count():
    """An item would be paid for and not be ordered."""
    assert set(ITEMS) == set(WORDS) == {*UNITS, "facility"}
