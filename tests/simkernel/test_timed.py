"""Times that somebody brought: exact at their points, the curve far from them, never too fast."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import chip

from simkernel.columns import taken
from simkernel.placement import Group
from simkernel.roofline import gemm_rates, gemm_work
from simkernel.timed import Line, Points, Timed
from simkernel.timed_over_curves import MessageTimes, ProductTimes, product_curve_s, timed_of

BF16 = 0
WIDE = (2.0, 2.0, 2.0)
NO_MESSAGES = MessageTimes(*(np.zeros(0, dtype=int),) * 4, *(np.zeros(0),) * 2)


def products(*rows):
    """(rows, inner, columns, is_in_step, seconds) each, on the first chip in bf16."""
    table = np.array(rows, dtype=float)
    zero = np.zeros(len(rows), dtype=int)
    return ProductTimes(zero, zero, *table.T)


def timed_chip(*rows):
    chips = chip()
    return replace(chips, timed=timed_of(chips, products(*rows), NO_MESSAGES))


def seconds(chips, rows, inner, columns, reached=1.0):
    rates = gemm_rates(chips, BF16, reached)
    return gemm_work(rates, np.atleast_1d(rows), inner, columns, WIDE).elapsed_s


def test_a_timed_product_takes_what_it_took():
    """An import would change nothing, or something else."""
    chips = timed_chip((8192, 4096, 4096, 0, 5e-4), (8192, 4096, 8192, 0, 9e-4))
    assert seconds(chips, 8192, 4096, 4096) == pytest.approx(5e-4, rel=1e-6)
    assert seconds(chips, 8192, 4096, 8192) == pytest.approx(9e-4, rel=1e-6)


def test_a_product_timed_in_a_step_holds_the_step_already():
    """What a step costs a kernel would be charged twice."""
    alone = timed_chip((8192, 4096, 4096, 0, 5e-4))
    in_step = timed_chip((8192, 4096, 4096, 1, 5e-4))
    assert seconds(in_step, 8192, 4096, 4096, reached=0.8) == pytest.approx(5e-4, rel=1e-6)
    assert seconds(alone, 8192, 4096, 4096, reached=0.8) > 5.9e-4


def test_the_transposed_product_takes_as_long():
    """Gradients of weights would not know what was timed of them."""
    chips = timed_chip((4096, 8192, 14336, 1, 1.6e-3))
    assert seconds(chips, 14336, 8192, 4096) == pytest.approx(1.6e-3, rel=1e-6)


def test_far_from_all_points_the_curve_stands():
    """One slow product would slow every product of a model."""
    chips = timed_chip((8192, 4096, 4096, 0, 5e-3))
    far = seconds(chips, 8, 128, 65536) / seconds(chip(), 8, 128, 65536)
    near = seconds(chips, 8192, 4096, 5000) / seconds(chip(), 8192, 4096, 5000)
    assert abs(far - 1.0) < 0.01
    assert near > 5.0


def test_nothing_is_faster_than_the_roofline():
    """A slip of a unit would make a chip that nobody sells."""
    chips = timed_chip((8192, 4096, 4096, 0, 1e-9))
    least_s = 2.0 * 8192 * 4096 * 4096 / chip().peak_flop_per_s[0, BF16]
    assert seconds(chips, 8192, 4096, 4096) == pytest.approx(least_s, rel=1e-9)
    work = gemm_work(gemm_rates(chips, BF16), np.array([8192.0]), 4096, 4096, WIDE)
    assert np.all(work.compute_s <= work.elapsed_s)


def test_products_of_many_groups_keep_their_curve():
    """Times of one product would be taken for those of experts."""
    chips = timed_chip((8192, 4096, 4096, 0, 5e-3))
    rates, plain = gemm_rates(chips, BF16), gemm_rates(chip(), BF16)
    groups = np.array([8.0])
    many = [gemm_work(r, np.array([8192.0]), 4096, 4096, WIDE, groups) for r in (rates, plain)]
    assert many[0].elapsed_s == many[1].elapsed_s


def test_what_no_point_has_a_say_in_grows_with_the_distance():
    """A prediction outside the data could not be told from one inside."""
    points = Points(np.log2([[8192.0, 4096, 4096]]), np.array([0.3]), np.array([0.0]))
    unknown = points.at(8192.0 * np.array([1.0, 2, 4, 16, 256]), 4096.0, 4096.0).unknown_frac
    assert unknown[0] < 1e-6
    assert unknown[2] == pytest.approx(0.5)
    assert np.all(np.diff(unknown) > 0)
    assert unknown[-1] > 0.99


def test_tables_stay_whole_where_candidates_are_taken():
    """A point would be lost with the rows of candidates that are left out."""
    points = Points(np.zeros((5, 3)), np.arange(5.0), np.zeros(5))
    timed = Timed(np.array([0, 0, 1]), {(0, 0): points}, {})
    some = taken({"a": (timed,)}, np.array([2]))["a"][0]
    assert some.codes.tolist() == [1]
    assert some.products[0, 0] is points
    assert timed.take(np.array([0, 2])).codes.tolist() == [0, 1]


def test_a_line_holds_its_ends():
    """A message larger than any timed one would be priced by a straight line into nowhere."""
    line = Line(8, 1, np.array([10.0, 20.0]), np.array([0.5, 0.1]))
    assert line.at(np.array([0.0, 15.0, 40.0])).tolist() == [0.5, 0.3, 0.1]


def test_curves_are_what_they_were_without_times():
    """A plan would change although nothing was imported."""
    times = products((8192, 4096, 4096, 0, 5e-4))
    curve_s, peak_s = product_curve_s(chip(), times)
    assert curve_s == seconds(chip(), 8192, 4096, 4096)
    assert np.all(curve_s > peak_s)


def test_a_message_beyond_its_lines_is_known_less_and_less():
    """A message far from any timed one would count as timed."""
    line = Line(8, 1, np.array([10.0, 20.0]), np.array([0.5, 0.1]))
    timed = Timed(np.array([0]), {}, {(0, "all_reduce"): (line,)})
    group = Group(np.array([8]), np.array([8]))
    unknown = [
        float(timed.message_frac("all_reduce", group, 2.0**n)[1][0]) for n in (15, 20, 22, 30)
    ]
    assert unknown[:2] == [0.0, 0.0]
    assert unknown[2] == pytest.approx(0.5)
    assert unknown[3] > 0.99
    assert float(timed.message_frac("send", group, 2.0**15)[1][0]) == 1.0
