"""Racks by height and by power, against counting them by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costdata.catalog import load
from costdata.racks import racks


def of(units, height, watts, most_w=np.inf):
    found = racks(np.array([units]), np.array([height]), np.array([watts]), most_w)
    return found.racks[0], found.rack_w[0]


def test_eight_unit_servers_share_racks_by_height_and_by_power():
    """100 servers of 8 U and 11 kW: 6 by height, 3 under 40 kW, 1 under 12 kW."""
    assert of(100.0, 8.0, 11e3) == (17, 66e3)
    assert of(100.0, 8.0, 11e3, 40e3) == (34, 33e3)
    assert of(100.0, 8.0, 11e3, 12e3) == (100, 11e3)


def test_a_server_above_the_limit_stands_and_is_over_it():
    """It would vanish into no racks, or divide by none of them."""
    assert of(10.0, 8.0, 11e3, 5e3) == (10, 11e3)
    assert of(4.0, 48.0, 132e3, 40e3) == (4, 132e3)


def test_a_supernode_of_sixteen_racks_takes_sixteen():
    """CloudMatrix 384, 752 U and 559 kW: 35 kW a rack, not 559."""
    count, watts = of(2.0, 752.0, 559e3)
    assert (count, watts) == (32, pytest.approx(559e3 / 16))


@given(st.floats(1, 1000), st.floats(1, 60), st.floats(1e3, 2e5), st.floats(1e3, 3e5))
def test_more_power_in_a_rack_never_needs_more_racks(units, height, watts, most):
    """A denser hall would have to be a larger one."""
    sparse, dense = of(np.ceil(units), height, watts, most), of(np.ceil(units), height, watts)
    assert dense[0] <= sparse[0]
    assert sparse[1] <= max(most, watts)


def test_rack_scale_chips_are_liquid_cooled_in_the_catalogue():
    """An air-cooled hall would be sold an NVL72."""
    catalog = load()
    assert catalog.purchase_unit("GB200").is_liquid is True
    assert catalog.purchase_unit("H100-SXM").is_liquid is False
    assert catalog.purchase_unit("H20").is_liquid is None
