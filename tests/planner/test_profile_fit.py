"""The fit of profiles: it finds what is there, ships what it found, and never sees what is out."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from costdata import catalog
from costdata.profiles import COMPILED, HOPPER, SHIPPED, UNFUSED, VENDOR, XLA, profile_names
from planner.calibration import profile_fit
from planner.calibration.kernels import TABLES, differences
from planner.calibration.profile_fit import (
    Values,
    fit,
    read_priors,
    read_problem,
    stack_of_block,
    tables,
)
from planner.documents import validate as commands_validate
from planner.validation.held_out import Fold
from planner.validation.rows import TruthRow
from planner.validation.stacks import release_year, stack_kind
from planner.validation.training import speeds
from simkernel.errors import BadStudy, MissingFact, UnknownName

TRAIN = Path(__file__).parents[1] / "truth" / "train.csv"


@cache
def problem():
    return read_problem([TRAIN], catalog.load())


def small(blocks):
    """The problem of some blocks alone."""
    whole = problem()
    rows = np.concatenate([block.rows for block in blocks])
    places = {row: i for i, row in enumerate(rows)}
    own = tuple(replace(b, rows=np.array([places[r] for r in b.rows])) for b in blocks)
    others = np.delete(whole.contrasts, rows, axis=1)
    pairs = whole.contrasts[~others.any(axis=1)][:, rows]
    cells = {"measured": whole.measured[rows], "weights": whole.weights[rows], "contrasts": pairs}
    return replace(whole, blocks=own, **cells)


def few():
    """Blocks of every kind of stack."""
    kinds = {b.kind: b for b in problem().blocks if len(b.rows) > 1}
    return list(kinds.values())


def test_the_shipped_profiles_are_those_of_the_shipped_parameters():
    """A hand could have changed a profile that says it was fitted."""
    priors = read_priors()
    assert not differences(tables(priors.shipped, priors), TABLES)


@pytest.mark.long
def test_the_shipped_parameters_are_where_the_fit_ends():
    """A change of the physics would leave its profiles behind.

    After one: python -m planner.calibration.profile_fit tests/truth/train.csv
    """
    shipped = read_priors().shipped
    again = fit(problem(), shipped, steps=1).logs
    assert np.abs(again - shipped).max() < 0.02


def test_no_parameter_belongs_to_a_source_or_a_model():
    """Tuned case by case, a fit says nothing about the next case."""
    chips = catalog.load()
    owners = {"*", "all", "fused", "tpu", UNFUSED, COMPILED, VENDOR, XLA}
    owners |= {chips.accelerator(name).architecture for name in chips.accelerators}
    owners |= set(chips.accelerators)
    assert {name.split(".", 1)[1] for name in read_priors().names} <= owners


@pytest.mark.long
def test_slopes_are_those_of_one_parameter_moved_at_a_time():
    """Rows repeated in one call must be priced as they are alone."""
    some = small(few()[:3])
    at = some.priors.shipped
    residuals, slopes = some.slopes(at)
    assert residuals == pytest.approx(some.residuals(at), abs=1e-12)
    for k in (0, 5, len(at) - 1):
        moved = at.copy()
        moved[k] += profile_fit.NUDGE_LOG
        alone = (some.residuals(moved) - residuals) / profile_fit.NUDGE_LOG
        assert slopes[:, k] == pytest.approx(alone, abs=1e-9)


@pytest.mark.long
def test_a_fit_finds_the_parameters_that_made_the_speeds():
    """On runs without error and with weak priors nothing but the truth is left."""
    some = small(few())
    rng = np.random.default_rng(1)
    true = some.priors.shipped + 0.1 * rng.standard_normal(len(some.priors.shipped))
    made = np.zeros(len(some.measured))
    for block in some.blocks:
        values = Values(some.priors.names, np.exp(true))
        made[block.rows] = speeds(block, stack_of_block(values, block))
    weak = replace(some.priors, spreads=10.0 * some.priors.spreads)
    found = fit(replace(some, measured=made, priors=weak), some.priors.shipped, steps=5)
    assert np.abs(found.residuals).max() < 0.02


@pytest.mark.long
def test_what_is_left_out_does_not_pull():
    """A measurement could be predicted from itself."""
    some = small(few())
    is_out = np.arange(len(some.measured)) < 3
    start = some.priors.shipped
    before = Fold(some, is_out, start)
    wrong = np.where(is_out, 10.0 * some.measured, some.measured)
    after = Fold(replace(some, measured=wrong), is_out, start)
    moved = after.residuals() - before.residuals()
    assert moved[~is_out] == pytest.approx(0.0, abs=1e-12)
    assert moved[is_out] == pytest.approx(-np.log(10.0), abs=1e-12)


@pytest.mark.parametrize(
    ("cells", "architecture", "kind"),
    [
        ({"stack": "2020-22 unfused attention, no overlap"}, "ampere", UNFUSED),
        ({"source": "Narayanan et al. 2021"}, "ampere", UNFUSED),
        ({"source": "MaxText"}, "tpu", XLA),
        ({"source": "Megatron-Bridge", "software_release": "26.04.01"}, "blackwell", VENDOR),
        ({"source": "llm-foundry"}, "hopper", COMPILED),
        ({"source": "a report", "notes": "PP16 (DualPipe), EP64"}, "hopper", HOPPER),
        ({"source": "a report", "notes": "PP16 (DualPipe), EP64"}, "ampere", COMPILED),
    ],
)
def test_a_stack_is_read_from_its_row_or_by_the_rule(cells, architecture, kind):
    """A run could be given the profile that happens to fit it."""
    assert stack_kind(TruthRow({"case_id": "x", **cells}, ""), architecture) == kind


def test_a_release_is_its_year_and_month():
    """26.04.01 is April 2026; no release is no year."""
    assert release_year(TruthRow({"software_release": "26.04.01"}, "")) == pytest.approx(26.25)
    assert release_year(TruthRow({"software_release": ""}, "")) is None


def test_an_older_release_is_slower_with_experts_and_a_profile_is_by_name():
    """Experts have matured by a half every year; dense products have not."""
    chips = catalog.load()
    now, then = (chips.stack(VENDOR, "GB200", release_year=y) for y in (26 + 7 / 12, 25.0))
    assert then.permute_passes > now.permute_passes
    assert then.gemm_frac == now.gemm_frac
    assert chips.stack(SHIPPED, "GB200") == chips.stack(VENDOR, "GB200")
    assert chips.stack(SHIPPED, "TPU-v5e") == chips.stack(XLA, "TPU-v5e")
    assert set(profile_names(chips.tables)) == {SHIPPED, VENDOR, HOPPER, COMPILED, XLA, UNFUSED}
    with pytest.raises(UnknownName, match="profile"):
        chips.stack("mine", "GB200")


def test_kernels_written_for_one_architecture_are_refused_on_another():
    """A B200 would be planned with kernels that do not run on it."""
    chips = catalog.load()
    assert chips.stack(HOPPER, "H800-SXM").grouped_frac == 1.0
    assert chips.keeping(HOPPER, "H800-SXM").gate_bytes == 1.0
    with pytest.raises(MissingFact, match="written for hopper chips; B200-SXM is of blackwell"):
        chips.stack(HOPPER, "B200-SXM")


@pytest.mark.long
@pytest.mark.parametrize(
    ("protocol", "where", "told"),
    [
        ("fit", [], "wanted shipped, kernels, fitted"),
        ("leave_one_out", [], "wanted shipped, kernels, fitted"),
        ("one_factor:", [], "wanted shipped, kernels, fitted"),
        ("leave_one_out:planet", [], "no row has the column planet"),
        ("fitted", ["source_group=korthikanti"], "too few"),
        ("leave_one_out:source_group", ["source_group=mosaic"], "leaves none"),
    ],
)
def test_a_protocol_that_cannot_be_is_told(protocol, where, told):
    """A fit on nothing would print an error table of the priors."""
    with pytest.raises(BadStudy, match=told):
        commands_validate.validate([TRAIN], protocol, where)


@pytest.mark.long
def test_one_factor_takes_the_middle_of_each_group_away():
    """What is left of a source is its spread, not its level."""
    where = ["accelerator=A100-80GB-SXM"]
    found, alone = (
        commands_validate.validate([TRAIN], protocol, where)["metrics"]
        for protocol in ("one_factor:source_group", "shipped")
    )
    ours, theirs = (m["throughput"]["groups"]["source_group"]["megascale"] for m in (found, alone))
    assert ours["mape"] < theirs["mape"]
    assert found["memory_bytes"]["mape"] == pytest.approx(alone["memory_bytes"]["mape"])
