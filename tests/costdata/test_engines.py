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


def test_an_unknown_engine_has_the_figures_of_any():
    """Overheads of no engine at all would be the fastest of all."""
    facts = catalog.load()
    assert facts.engine("unheard-of", "hopper") == facts.engine("*", "hopper")
    assert facts.engine("vllm", "hopper") != facts.engine("*", "hopper")
