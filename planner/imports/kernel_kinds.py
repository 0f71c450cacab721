"""What a kernel of a trace does, by the operator that launched it and else by its own name.

Names are those of PyTorch's operators (ATen), of cuBLAS, CUTLASS, FlashAttention, NCCL, Triton and
their kin on AMD, as public traces have them.
"""

from __future__ import annotations

import re

COMMUNICATION, PRODUCT, ATTENTION, NORM = "communication", "product", "attention", "norm"
EXPERTS, OPTIMISER, LOSS, ELEMENTWISE = "experts", "optimiser", "loss", "elementwise"
COPIES, OTHER = "copies", "not recognised"

KINDS = (
    COMMUNICATION, PRODUCT, ATTENTION, NORM, EXPERTS, OPTIMISER, LOSS, ELEMENTWISE, COPIES, OTHER,
)  # fmt: skip

BY_OPERATOR = (
    (ATTENTION, re.compile(r"flash_attn|flash_attention|scaled_dot_product|fmha|FlashAttn|sdpa")),
    (PRODUCT, re.compile(r"^aten::(mm|addmm|bmm|baddbmm|_scaled_mm|matmul|linear)$")),
    (NORM, re.compile(r"norm(_backward)?$|(layer|rms|batch|group)_?norm", re.IGNORECASE)),
    (OPTIMISER, re.compile(r"^aten::_(foreach|fused_(adam|sgd))|adam", re.IGNORECASE)),
    (LOSS, re.compile(r"nll_loss|cross_entropy|log_softmax")),
    (EXPERTS, re.compile(r"grouped_mm|topk|moe", re.IGNORECASE)),
)

BY_NAME = (
    (COMMUNICATION, re.compile(r"nccl|rccl|all_?reduce|all_?gather|nvshmem|deep_ep", re.I)),
    (ATTENTION, re.compile(r"flash|fmha|attention|attn|sdpa", re.IGNORECASE)),
    (EXPERTS, re.compile(r"grouped_?gemm|moe|permute_kernel|topk|router", re.IGNORECASE)),
    (
        PRODUCT,
        re.compile(r"gemm|xmma|cutlass|cublas|nvjet|Cijk_|wgrad|splitK|gemv|matmul|_mm_", re.I),
    ),
    (NORM, re.compile(r"norm", re.IGNORECASE)),
    (OPTIMISER, re.compile(r"adam|multi_tensor_apply|lamb_|sgd", re.IGNORECASE)),
    (LOSS, re.compile(r"nll_loss|cross_entropy|softmax", re.IGNORECASE)),
    (
        ELEMENTWISE,
        re.compile(
            r"elementwise|vectorized|triton|reduce_kernel|cat|copy|fill|index|embedding|dropout|"
            r"gelu|silu|rotary|rope|cast|transpose|scatter|gather|cumsum|sort|arange",
            re.IGNORECASE,
        ),
    ),
    (COPIES, re.compile(r"memcpy|memset", re.IGNORECASE)),
)


def kind_of(name: str, operator: str) -> str:
    """One of KINDS.

    Parameters
    ----------
    name : of the kernel
    operator : that launched it, "" where a trace does not say
    """
    first = BY_NAME[0]
    if first[1].search(name):
        return first[0]
    for kind, pattern in BY_OPERATOR:
        if operator and pattern.search(operator):
            return kind
    return next((kind for kind, pattern in BY_NAME if pattern.search(name)), OTHER)
