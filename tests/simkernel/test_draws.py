"""What is drawn of a step: loads of experts, delays of domains."""

import numpy as np
import pytest

from simkernel.replay.draws import Unevenness, drawn

UNEVEN = Unevenness(1.0, 1.1, 1.5, 0.02, 0.01, -1.0, 64, 4)
LAYERS = np.array([0.0, 4.0, 58.0])


def test_loads_lie_between_their_ends_and_layers_average_them_out():
    """A stage of many layers would be as uneven as its worst one."""
    load = np.concatenate([drawn(UNEVEN, LAYERS, 3, 8, seed).load_frac for seed in range(200)], 1)
    assert (load[0] == 0.0).all()
    assert load[1:].mean() == pytest.approx((1.0 + 1.1 + 1.5) / 3 - 1.0, abs=0.01)
    assert load[2].std() < 0.5 * load[1].std()
    assert -0.1 < load[1:].min() < load.max() < 0.6


def test_the_slowest_of_many_domains_is_what_counts():
    """A stage of 64 domains that keep step would be as fast as its mean one."""
    slower = np.array([drawn(UNEVEN, LAYERS, 3, 8, seed).slower_frac for seed in range(200)])
    assert slower.shape == (200, 4, 3)
    harmonic = (1.0 / np.arange(1, 65)).sum()  # David, Nagaraja, 4.6: 1 + 1/2 + ... + 1/64
    assert slower.mean() == pytest.approx(0.01 * (harmonic - 1.0), rel=0.05)


def test_one_seed_is_one_draw_and_what_is_given_is_not_drawn():
    """A replay could not be repeated, or would draw what the study says."""
    one, same, other = (drawn(UNEVEN, LAYERS, 3, 8, seed) for seed in (1, 1, 2))
    assert (one.load_frac == same.load_frac).all()
    assert (one.load_frac[1:] != other.load_frac[1:]).all()
    still = Unevenness(1.0, 1.0, 1.0, 0.0, 0.01, 0.2, 64, 4)
    assert (drawn(still, LAYERS, 3, 8, 1).slower_frac == 0.2).all()
    assert (drawn(still, LAYERS, 3, 8, 1).load_frac == 0.0).all()
