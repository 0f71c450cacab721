"""Passes beside each other: what they share they wait for, what they do not they hide."""

import numpy as np
import pytest

from simkernel.passes import Pass, combine, overlapped
from simkernel.stack import Stack


def test_two_traffics_on_one_network_card_add_up():
    """Experts and gradients through one card at once: the longer of them would be promised."""
    experts = Pass(outside_s=3.0, floor_s=3.0)
    gradients = Pass(outside_s=2.0, floor_s=2.0)
    products = Pass(compute_s=4.0, floor_s=4.0)
    assert combine(experts, gradients) == 5.0
    assert combine(products, experts, gradients) == 5.0
    assert overlapped(products + experts, gradients, Stack()) == 7.0
    assert overlapped(products, experts + gradients, Stack()) == 5.0


@pytest.mark.parametrize("name", ["compute_s", "hbm_s", "inside_s", "outside_s", "host_link_s"])
def test_no_resource_does_two_things_at_once(name):
    """A resource left out of the sum would carry any traffic for nothing."""
    one, other = (Pass(**{name: np.array([s])}) for s in (3.0, 2.0))
    assert combine(one, other) == 5.0


def test_different_resources_hide_each_other():
    """Traffic inside a domain would wait for the network outside it."""
    assert combine(Pass(inside_s=3.0, floor_s=3.0), Pass(outside_s=2.0, floor_s=2.0)) == 3.0


def test_a_pass_of_several_traffics_fills_the_card_for_their_sum():
    """Work with traffic of its own leaves the card only the rest of its time."""
    work = Pass(compute_s=6.0, floor_s=6.0) + Pass(outside_s=5.0, floor_s=0.0)
    beside = Pass(outside_s=4.0, floor_s=4.0)
    assert overlapped(work, beside, Stack()) == 9.0
