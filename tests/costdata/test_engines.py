"""Engine curves by chip: own timings first, then the architecture's, then the chip's own."""

import numpy as np

from costdata import catalog
from simkernel.hardware import PRECISIONS

FP8 = PRECISIONS.index("fp8")


def test_a_chip_without_timings_takes_its_architectures():
    """H800 has the kernels of H100; without them every Chinese cluster would lack an engine."""
    facts = catalog.load()
    own, like = (facts.engine_curves("trtllm", [name]) for name in ("H100-SXM", "H800-SXM"))
    assert np.array_equal(own.gemm.floor_s[0, FP8], like.gemm.floor_s[0, FP8])
    assert own.decode.hbm_frac[0, 1] == like.decode.hbm_frac[0, 1]


def test_an_engine_that_was_never_timed_takes_the_chips_curves():
    """A new engine must be priced, as any software, not refused."""
    facts = catalog.load()
    curves, chips = facts.engine_curves("unheard-of", ["H100-SXM"]), facts.chips(["H100-SXM"])
    assert np.array_equal(curves.gemm.hbm_frac, chips.gemm.hbm_frac, equal_nan=True)
    assert curves.prefill.flop_frac_max[0] == chips.attention.flop_frac_max[0]


def test_every_chip_of_the_catalogue_has_curves_of_every_engine():
    """A chip that falls out of a sweep for want of a kernel curve would go unseen."""
    facts = catalog.load()
    names = facts.accelerators
    for engine in ("trtllm", "vllm", "sglang", "*"):
        curves = facts.engine_curves(engine, names)
        assert np.isfinite(curves.decode.hbm_frac).all()
        assert np.isfinite(curves.all_reduce_once.wire_frac).all()


def test_no_product_of_an_engine_comes_nearer_the_peak_than_one_that_was_timed():
    """Curves that saturate in width go on rising: a wide product took 83% of an FP8 peak of which
    the best timing has 77%."""
    curves = catalog.load().engine_curves("vllm", ["H200-SXM", "B200-SXM"])
    assert (curves.gemm.most_flop_frac[:, FP8] < 0.8).all()


def test_only_timed_switches_add_up():
    """Cards on PCIe, and eight A100, would reduce as fast as a switch that they do not have."""
    facts = catalog.load()
    with_it, without = (
        facts.engine_curves("vllm", [name]).all_reduce_switched.base_s[0]
        for name in ("H100-SXM", "A100-80G-SXM")
    )
    assert with_it < 1e-3
    assert without == np.inf


def test_an_unknown_engine_has_the_figures_of_any():
    """Overheads of no engine at all would be the fastest of all."""
    facts = catalog.load()
    assert facts.engine("unheard-of", "hopper") == facts.engine("*", "hopper")
    assert facts.engine("vllm", "hopper") != facts.engine("*", "hopper")
