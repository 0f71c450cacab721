"""The sweep against every candidate evaluated by itself, and the laws its front has to keep."""

from collections import Counter
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import DENSE, MOE, engine_of, with_lines

from planner.search import sweep as room
from planner.search import workforce
from planner.search.sweep import criteria, named_rows, sweep, sweep_left_out
from planner.space.blocks import bills, blocks, columns
from planner.training.evaluate import evaluate
from simkernel.errors import PlanError
from simkernel.hardware import PRECISIONS

CRITERIA = ("days", "it_mean_w", "it_peak_w", "purchase_units")


def points_of(table):
    """The four criteria of plans on a front; (n, 4)."""
    return np.stack([np.asarray(table[name], float) for name in CRITERIA], axis=1)


def beaten(points):
    """True where another point is nowhere worse and somewhere better; every pair is compared."""
    no_worse = np.all(points[:, None, :] <= points[None, :, :], axis=2)
    better = np.any(points[:, None, :] < points[None, :, :], axis=2)
    return np.any(no_worse & better, axis=0)


def by_hand(alone, bill):
    """Criteria of the feasible candidates of one bill; (n, 4)."""
    rows = [a["metrics"] for a in alone if a["bill"] == bill and a["feasible"]]
    return np.array([[row[name] for name in CRITERIA] for row in rows]).reshape(-1, 4)


@pytest.fixture(params=["dense", "moe"])
def case(request):
    """Both small studies."""
    return request.getfixturevalue(request.param)


def test_the_front_is_what_comparing_every_pair_of_candidates_gives(case):
    """A plan better than all shown would be lost between blocks, or a beaten one kept."""
    for result in case.results:
        points = by_hand(case.alone, result.index)
        best = np.unique(points[~beaten(points)], axis=0)
        shown = points_of(result.front) if result.front else np.empty((0, 4))
        assert len(shown) == len(best)
        np.testing.assert_allclose(shown[np.lexsort(shown.T[::-1])], best, rtol=1e-12)


def test_a_candidate_is_the_same_in_a_block_and_by_itself(case):
    """A number would depend on what else was asked for."""
    alone = {a["key"]: a["metrics"] for a in case.alone}
    for bill in bills(case.engine.space):
        for block in blocks(case.engine.space, bill):
            if not len(block):
                continue
            rows = columns(case.engine.space, block)
            found = evaluate(case.engine, rows, str(bill.values["accelerator"]))
            for name, values in found.metrics.items():
                expected = [alone[int(key)][name] for key in block.keys]
                np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=name)


def test_every_candidate_is_counted_once(case):
    """Candidates would vanish: neither refused, nor evaluated, nor told."""
    masked = sum(sum(result.masked.values()) for result in case.results)
    evaluated = sum(result.evaluated for result in case.results)
    assert masked + evaluated == case.engine.space.enumerated
    assert evaluated == len(case.alone)
    keys = [int(key) for r in case.results if r.front for key in r.front["key"]]
    assert len(keys) == len(set(keys))


def test_rejections_count_every_limit_that_a_candidate_breaks(dense):
    """The report would blame memory for what the date forbids."""
    memory = sum(a["metrics"]["headroom_bytes"] < 0 for a in dense.alone)
    late = sum(a["metrics"]["days"] > 90 for a in dense.alone)
    counts = sum((result.rejected for result in dense.results), start=Counter())
    assert memory > 0
    assert late > 0
    assert counts == {"memory": memory, "days": late}


def test_no_plan_on_the_front_breaks_a_limit(case):
    """An impossible plan would be shown with plausible numbers."""
    feasible = {a["key"] for a in case.alone if a["feasible"]}
    for result in case.results:
        assert set(result.front.get("key", np.zeros(0)).tolist()) <= feasible


def test_the_order_of_candidates_does_not_change_them(case):
    """Results would be tied to places in a block instead of to plans."""
    rng = np.random.default_rng(5)
    for bill in bills(case.engine.space):
        for block in blocks(case.engine.space, bill):
            if not len(block):
                continue
            rows, order = columns(case.engine.space, block), rng.permutation(len(block))
            mixed = {name: column[order] for name, column in rows.items()}
            name = str(bill.values["accelerator"])
            first, second = (evaluate(case.engine, r, name) for r in (rows, mixed))
            for metric, values in first.metrics.items():
                np.testing.assert_array_equal(values[order], second.metrics[metric])
            for metric, ledger in first.ledgers.items():
                total = np.asarray(ledger.total)[order]
                np.testing.assert_allclose(second.ledgers[metric].total, total, rtol=1e-12)


def test_the_order_of_bills_and_levels_does_not_matter(dense):
    """A study written in another order would give another answer."""
    text = with_lines(
        DENSE,
        accelerator='accelerator = ["A100-80GB-SXM", "H100-SXM"]',
        devices="devices = [64, 32]",
        tensor_parallel="tensor_parallel = [2, 1]",
        zero_stage="zero_stage = [3, 1]",
    )
    results = list(sweep(engine_of(text), 1, lambda: False))

    def points(of):
        rows = np.concatenate([points_of(result.front) for result in of if result.front])
        return rows[np.lexsort(rows.T[::-1])]

    np.testing.assert_array_equal(points(results), points(dense.results))


def test_bills_done_by_two_processes_are_the_same_bills(dense):
    """The answer would depend on the machine it was computed on."""
    found = {result.index: result for result in sweep(dense.engine, 2, lambda: False)}
    assert sorted(found) == [result.index for result in dense.results]
    for result in dense.results:
        other = found[result.index]
        assert (other.evaluated, other.masked, other.rejected) == (
            result.evaluated,
            result.masked,
            result.rejected,
        )
        for name, column in result.front.items():
            np.testing.assert_array_equal(other.front[name], column)


def test_a_stopped_sweep_hands_out_no_more_bills(dense):
    """Ctrl-C would wait for the whole study."""
    asked = []
    results = sweep(dense.engine, 1, lambda: asked.append(None) or len(asked) > 1)
    assert [result.index for result in results] == [0, 1]


def test_a_killed_process_is_told_and_not_taken_for_the_end(dense, monkeypatch):
    """A sweep would end early with half of the answer, or with our own traceback."""

    class Killed:
        def __init__(self, *words):
            self.left = [Future(), Future()]
            self.left[0].set_result([dense.results[0]])
            self.left[1].set_exception(BrokenProcessPool("terminated abruptly"))

        def submit(self, *words):
            return self.left.pop(0) if self.left else Future()

        def shutdown(self, **words):
            return None

    monkeypatch.setattr(workforce, "ProcessPoolExecutor", Killed)
    results = room.sweep(dense.engine, 2, lambda: False)
    with pytest.raises(PlanError, match=r"was killed, perhaps .* --workers 1"):
        list(results)


def test_another_objective_widens_the_front_to_hold_its_optimum():
    """The plan with most memory left would be thrown away before it was asked for."""
    text = DENSE + '[objectives]\nminimise = ["usd"]\nmaximise = ["headroom_bytes_low"]\n'
    engine = engine_of(text.replace("_low", "").replace("days = 90", "days = 120"))
    for result in sweep(engine, 1, lambda: False):
        (bill,) = (b for b in bills(engine.space) if b.index == result.index)
        (block,) = blocks(engine.space, bill)
        rows = columns(engine.space, block)
        found = evaluate(engine, rows, str(bill.values["accelerator"]))
        most = found.metrics["headroom_bytes"][found.is_feasible].max()
        assert result.front["headroom_bytes"].max() == most
    with_band = DENSE + '[objectives]\nminimise = ["resident_bytes_high"]\n'
    metrics = {name: np.ones(1) for name in (*CRITERIA, "resident_bytes")}
    assert criteria(engine_of(with_band).study, metrics).shape == (1, 5)


amounts = st.floats(0.0, 10.0)
powers = st.floats(0.2, 3.0)


@settings(max_examples=60)
@given(st.lists(st.tuples(amounts, powers), min_size=4, max_size=4), amounts, amounts)
def test_whatever_grows_with_time_power_and_units_is_least_on_the_front(
    dense, parts, product, step
):
    """A tariff, a carbon price or a rent would have its best plan outside what is archived."""

    def cost(points):
        scaled = points / points_all.max(axis=0)
        sums = sum(amount * scaled[:, i] ** power for i, (amount, power) in enumerate(parts))
        return sums + product * scaled[:, 0] * scaled[:, 1] + step * np.ceil(3 * scaled[:, 2])

    for result in dense.results:
        points_all = by_hand(dense.alone, result.index)
        if len(points_all):
            assert cost(points_of(result.front)).min() <= cost(points_all).min() * (1 + 1e-12)


def test_degrees_multiply_to_the_devices(case):
    """A degree would be billed not at all or twice."""
    for a in case.alone:
        rows = {name: column[0] for name, column in a["rows"].items()}
        split = (
            rows["tensor_parallel"]
            * rows["pipeline_parallel"]
            * rows["context_parallel"]
            * rows["data_parallel"]
        )
        assert split == rows["devices"]
        experts = rows["expert_parallel"] * rows["expert_tensor_parallel"]
        assert rows["devices"] / rows["pipeline_parallel"] % experts == 0
        assert rows["global_batch_sequences"] % rows["data_parallel"] == 0


def test_nothing_runs_faster_than_the_peak_of_its_chip(case):
    """An impossible plan would be shown with plausible numbers."""
    for a in case.alone:
        metrics = a["metrics"]
        assert 0 < metrics["mfu_frac"] <= 1
        assert 0 < metrics["goodput_frac"] <= 1
        chip = case.engine.chip(str(a["rows"]["accelerator"][0]))
        peak = chip.peak_flop_per_s[0, PRECISIONS.index("bf16")]
        assert metrics["model_flop_per_s_per_device"] <= peak
        assert metrics["device_mean_w"] <= metrics["device_peak_w"] <= chip.power.cap_w[0]
        assert metrics["it_mean_w"] <= metrics["it_peak_w"] <= metrics["provisioned_w"]


def test_ledgers_of_the_sweep_sum_to_their_metrics(case):
    """What a plan is made of would not be what it takes."""
    for a in case.alone:
        for ledger, metric in (("step_s", "step_s"), ("resident_bytes", "resident_bytes"),
                               ("it_w", "it_mean_w")):  # fmt: skip
            parts = [c[0] for name, c in a["rows"].items() if name.startswith(f"{ledger}[")]
            assert parts
            assert sum(parts) == pytest.approx(a["metrics"][metric], rel=1e-9)


def test_more_memory_is_never_less_feasible(monkeypatch):
    """A larger chip would be refused what a smaller one may do."""
    engine = engine_of(with_lines(DENSE, accelerator='accelerator = "H100-SXM"'))
    counts = []
    for gib in (10, 20, 40, 80, 160):
        chip = replace(engine.chip("H100-SXM"), memory_bytes=np.array([gib * 2.0**30]))
        monkeypatch.setitem(engine._chips, "H100-SXM", chip)
        fits = np.concatenate(
            [
                evaluate(engine, columns(engine.space, block), "H100-SXM").is_feasible
                for bill in bills(engine.space)
                for block in blocks(engine.space, bill)
            ]
        )
        counts.append(fits)
    for smaller, larger in pairwise(counts):
        assert np.all(larger | ~smaller)
    assert counts[0].sum() < counts[-1].sum()


def test_a_bill_without_a_feasible_plan_tells_its_least_violating_ones():
    """An empty answer would not say how far away it was (optuna#6242)."""
    engine = engine_of(with_lines(DENSE, days="days = 10"))
    assert not any(result.front for result in sweep(engine, 1, lambda: False))
    for result in sweep_left_out(engine, 1, lambda: False):
        assert not result.front
        assert 1 <= len(result.nearest["plan"]) <= 10
        assert np.all(np.diff(result.nearest["worst_excess"]) >= 0)
        (bill,) = (b for b in bills(engine.space) if b.index == result.index - 4)
        (block,) = blocks(engine.space, bill)
        rows = columns(engine.space, block)
        found = evaluate(engine, rows, str(bill.values["accelerator"]))
        excess = np.stack([limit.excess for limit in found.limits.values()])
        assert result.nearest["worst_excess"][0] == excess.max(axis=0).min()


def test_rows_are_named_as_a_person_reads_them(moe):
    """A code would be shown for a name, or NaN for the chip's own rate."""
    engine = moe.engine
    (first, *_) = bills(engine.space)
    (block,) = blocks(engine.space, first)
    rows = columns(engine.space, block)
    found = evaluate(engine, rows, "H100-SXM")
    table = named_rows(engine, block.keys, rows, found, np.arange(2))
    assert table["accelerator"].tolist() == ["H100-SXM"] * 2
    assert table["scaleup_gbytes_per_s"].tolist() == [450.0] * 2
    assert table["schedule"].tolist() == ["one_forward_one_backward"] * 2
    assert MOE.count("H100-SXM") == 1
