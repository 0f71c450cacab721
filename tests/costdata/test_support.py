"""What runs on what: a no has a reason, a yes has a source."""

import pytest

from costdata.catalog import load
from costdata.support import KERNELS
from simkernel.hardware import PRECISIONS


@pytest.mark.parametrize(
    ("name", "precision", "kernel", "reason"),
    [
        ("A100-80G-SXM", "fp8", "gqa", "Ampere has no FP8"),
        ("H100-SXM", "nvfp4", "moe", "no FP4 tensor cores"),
        ("H100-SXM", "mxfp8", "gqa", "MXFP8 starts with Blackwell"),
        ("MI300X", "mxfp8", "gqa", "no block-scaled MX formats"),
        ("MI355X", "nvfp4", "gqa", "NVFP4 is an NVIDIA Blackwell format"),
        ("Trainium2", "bf16", "mla", "no MLA kernel is published"),
        ("V100-32G-SXM", "fp16", "mla", "FlashAttention 2"),
        ("V100-32G-SXM", "bf16", "gqa", "there is no BF16"),
        ("Ascend-910C", "fp8", "mla", "FP8 starts with Ascend 950"),
        ("TPU-v5p", "fp16", "gqa", "there is no FP16"),
        ("TPU-v4", "fp8", "gqa", "gives no dense fp8 peak"),
        ("TPU-v3", "bf16", "state", "no row of support.csv speaks of"),
    ],
)
def test_what_does_not_run_is_refused_with_its_reason(name, precision, kernel, reason):
    """A plan in FP8 on A100 was offered, and nobody could say why it was wrong."""
    answer = load().supports(name, precision, kernel)
    assert not answer
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("name", "precision", "kernel"),
    [
        ("H100-SXM", "fp8", "mla"),
        ("A100-80G-SXM", "bf16", "mla"),
        ("GB200", "nvfp4", "moe"),
        ("B200-SXM", "mxfp8", "mla"),
        ("MI355X", "mxfp8", "moe"),
        ("H100-SXM", "fp8_block", "moe"),
        ("TPU-v5p", "bf16", "mla"),
        ("Ascend-910B", "bf16", "mla"),
        ("V100-32G-SXM", "fp16", "gqa"),
        ("H100-96G-500W", "fp8", "gqa"),
    ],
)
def test_what_was_measured_runs(name, precision, kernel):
    """A configuration with a published measurement was called impossible."""
    answer = load().supports(name, precision, kernel)
    assert answer, answer.reason
    assert answer.source


def test_the_support_mask_is_the_support_of_each():
    """The sweep masked by another matrix than the one that explains."""
    names = ["A100-80G-SXM", "GB200", "Trainium2"]
    mask = load().support_mask(names)
    for i, name in enumerate(names):
        for j, precision in enumerate(PRECISIONS):
            for k, kernel in enumerate(KERNELS):
                assert mask[i, j, k] == bool(load().supports(name, precision, kernel))


def test_no_peak_is_left_without_a_word_in_the_matrix():
    """A chip with a peak in a precision ran nothing in it: a hole, not a finding."""
    for name in load().accelerators:
        for precision in PRECISIONS:
            answer = load().supports(name, precision, "gqa")
            has_peak = f"{precision}_flop_per_s" in load().accelerator(name).facts
            assert has_peak or not answer, f"{name}/{precision}"
            assert answer.source or not has_peak, f"{name}/{precision}"
