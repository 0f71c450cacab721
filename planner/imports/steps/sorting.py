"""What part of a step each call of a trace belongs to, by its name, its shapes and its callers.

Names are those of PyTorch's operators (ATen), of its autograd nodes and of the marks that its
optimisers and modules set, as traces of versions 2.1 to 2.13 have them. A call that nothing is
known of is what its caller is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from planner.imports.kernel_kinds import (
    ATTENTION,
    COMMUNICATION,
    COPIES,
    ELEMENTWISE,
    EXPERTS,
    LOSS,
    NORM,
    OPTIMISER,
    OTHER,
    PRODUCT,
)  # fmt: skip
from planner.imports.steps.operators import NOBODY, Calls, Dims, Tree
from simkernel.columns import Codes, Masks

EMBEDDING, HOST = "embedding", "host"

PARTS = (
    ATTENTION, PRODUCT, EXPERTS, NORM, ELEMENTWISE, EMBEDDING, LOSS, OPTIMISER, COMMUNICATION,
    COPIES, HOST, OTHER,
)  # fmt: skip

WHOLE = (
    (OPTIMISER, re.compile(r"^Optimizer\.(step|zero_grad)|AccumulateGrad|^aten::_fused_(adam|sgd)"
                           r"|clip_grad|^FusedAdam|unscale_|grad_norm", re.I)),
    (COMMUNICATION, re.compile(r"^c10d::|^nccl:|^record_param_comms|^gloo:|^_c10d_functional|"
                               r"^mccl:|^hccl:", re.I)),
    (ATTENTION, re.compile(r"scaled_dot_product|ScaledDotProduct|flash_?attn|flash_?attention|"
                           r"fmha|efficient_attention|FusedAttn|flex_attention|CoreAttention",
                           re.I)),
    (LOSS, re.compile(r"cross_?entropy|nll_loss|NllLoss|log_?softmax", re.I)),
    (NORM, re.compile(r"(layer|rms|batch|group)_?norm", re.I)),
    (EMBEDDING, re.compile(r"embedding", re.I)),
    (EXPERTS, re.compile(r"\btop_?k\b|^TopK|moe_?(permute|unpermute|dispatch|combine)|router|"
                         r"token_?(permutation|dispatcher)", re.I)),
)  # fmt: skip
"""Calls all of whose calls are of the same part, the first that fits."""

MODULES = (
    (NORM, re.compile(r"norm", re.I)),
    (EMBEDDING, re.compile(r"embed", re.I)),
    (EXPERTS, re.compile(r"router|gate(?!d)|dispatch|permut", re.I)),
)
"""Modules (`nn.Module: NAME_0`) whose calls but for products are of one part."""

PRODUCTS = re.compile(
    r"^aten::(mm|addmm|bmm|baddbmm|matmul|linear|_scaled_mm|_?grouped_mm|_addmm_activation|"
    r"_scaled_grouped_mm|addbmm|einsum)$|^(Mm|Addmm|Bmm|Baddbmm|Linear|GroupedMm|_ScaledMm)"
    r"\w*Backward|^mkldnn::_linear|^mkl::_mkl_linear|^aten::mkldnn_linear|^_?(LayerNorm)?Linear"
)

ELEMENTWISES = re.compile(
    r"^aten::(_?(add|sub|mul|div|neg|pow|square|sqrt|rsqrt|exp|log|sigmoid|tanh|relu|gelu|silu|"
    r"softmax|softplus|erf|sin|cos|abs|sign|floor|ceil|round|reciprocal|maximum|minimum|max|min|"
    r"amax|amin|clamp|clamp_min|clamp_max|sum|mean|var|cumsum|where|masked_fill|tril|triu|eq|ne|"
    r"lt|le|gt|ge|logical_\w+|bitwise_\w+|isnan|isinf|any|all|add_relu|threshold|hardtanh|"
    r"leaky_relu|mish|swiglu|glu|dropout|native_dropout|bernoulli|copy|clone|contiguous|cat|"
    r"stack|index|index_select|index_add|index_put|index_copy|gather|scatter|scatter_add|"
    r"repeat|repeat_interleave|roll|flip|sort|argsort|argmax|nonzero|one_hot|bincount|histc|"
    r"addcmul|addcdiv|lerp|polar|complex|view_as_complex|view_as_real|arange|full|fill|zero|"
    r"zeros|ones|zeros_like|ones_like|full_like|new_zeros|new_full|rand|randn|randint|normal|"
    r"uniform|foreach\w*|to_copy|to|type_as|constant_pad_nd|pad|im2col|split_with_sizes_copy|"
    r"masked_select|rsub|norm|linalg_vector_norm|softmax_backward_data|fft_\w+)"
    r"(_backward)?(_copy)?_?)$|^triton_|^(Add|Sub|Mul|Div|Neg|Pow|Gelu|Silu|Relu|Sigmoid|Tanh|"
    r"Softmax|Exp|Sqrt|Rsqrt|Mean|Sum|Clone|Copy|ToCopy|Cat|Stack|Index|IndexSelect|IndexPut|"
    r"Gather|Scatter|Where|MaskedFill|NativeDropout|Dropout|Split|SplitWithSizes|Unbind|Slice|"
    r"Repeat|Rsub|Var|Max|Min|Clamp|Sin|Cos|Select|Glu|Mish|Tril|Triu|SwiGLU\w*|Rotary\w*|"
    r"Apply\w*Rotary\w*|UnsafeSplit)\w*Backward"
)

VIEWS = re.compile(
    r"^aten::_?(view|reshape_alias|reshape|t|transpose|permute|expand|expand_as|as_strided|"
    r"slice|select|narrow|unsqueeze|squeeze|unbind|split|split_with_sizes|chunk|detach|alias|"
    r"empty|empty_like|empty_strided|new_empty|new_empty_strided|resize|resize_as|set|unflatten|"
    r"flatten|unfold|diagonal|item|local_scalar_dense|is_nonzero|result_type|lift_fresh|numpy_T|"
    r"broadcast_tensors|unsafe_view|movedim|swapaxes|requires_grad|is_pinned|pin_memory|"
    r"record_stream|equal|size|stride|numel|random|conj|mT|unsafe_split|view_as|real|"
    r"resolve_conj|resolve_neg|to_dense|has_compatible_shallow_copy_type)_?$|"
    r"^(detach|view|reshape|expand)_?$|^(View|UnsafeView|T|Transpose|Permute|Expand|Reshape|"
    r"ReshapeAlias|Unsqueeze|Squeeze|Detach|AsStrided|Alias|Narrow|Unfold)\w*Backward"
)
"""Calls that move no value: what they take is the host's."""

PROGRAM = re.compile(
    r"^autograd::engine::|^ProfilerStep#|^torch::|^DataLoader|^enumerate\(|^Torch-Compiled|"
    r"^CompiledFunction|^## |^nn\.Module: |^FSDP::|^DDP\.|^DistributedDataParallel|^Pregraph|"
    r"^Memcpy|^cuda|^PyTorch Profiler|^Optimizer|^TorchDynamo|^AOTDispatcher|^Inductor|^forward$|"
    r"^backward$|^DeviceMesh|^Command Buffer"
)
"""What a framework runs around kernels."""

BACKWARD = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$")

MODULE = "nn.Module: "


@dataclass(frozen=True)
class Sorted:
    """Parts of calls; (n,) each.

    Parameters
    ----------
    parts : index in PARTS of a call's own time
    is_backward : inside the backward pass
    """

    parts: Codes
    is_backward: Masks


def sort_calls(calls: Calls, tree: Tree, sequence_tokens: int = 0) -> Sorted:
    """Part and direction of every call.

    Parameters
    ----------
    sequence_tokens : length of a sequence: what has a square of it is attention, 0 if not known
    """
    names = list(calls.names)
    by_name = [_of_name(name) for name in names]
    is_back = [bool(BACKWARD.search(name)) for name in names]
    is_square = [_is_square(dims, sequence_tokens) for dims in calls.dims]
    parts, backward = np.empty(len(calls), dtype=np.int64), np.zeros(len(calls), dtype=bool)
    whole = np.zeros(len(calls), dtype=bool)
    module = np.full(len(calls), NOBODY)
    other, host = PARTS.index(OTHER), PARTS.index(HOST)
    for i in tree.order.tolist():
        code, parent = calls.name_codes[i], int(tree.parents[i])
        part, is_whole = by_name[code]
        if parent != NOBODY:
            backward[i], module[i] = backward[parent], module[parent]
        backward[i] |= is_back[code]
        if names[code].startswith(MODULE):
            module[i] = _module_part(names[code], int(module[i]))
        if parent != NOBODY and whole[parent]:
            parts[i], whole[i] = parts[parent], True
            continue
        if is_square[calls.dims_codes[i]] and part in (PRODUCT, ELEMENTWISE):
            part, is_whole = ATTENTION, True
        if part == OTHER and parent != NOBODY and parts[parent] not in (other, host):
            parts[i] = parts[parent]
        elif module[i] != NOBODY and part in (ELEMENTWISE, OTHER):
            parts[i] = module[i]
        elif part == HOST and parent != NOBODY and parts[parent] == PARTS.index(PRODUCT):
            parts[i] = parts[parent]
        else:
            parts[i] = PARTS.index(part)
        whole[i] = is_whole
    return Sorted(parts, backward)


def _of_name(name: str) -> tuple[str, bool]:
    """Part of a call by its name alone, and whether all its calls are of it."""
    bare = name.removeprefix("autograd::engine::evaluate_function: ")
    is_node = bare != name
    if not bare.startswith(MODULE):
        for part, pattern in WHOLE:
            if pattern.search(bare):
                return part, True
    if is_node or PROGRAM.search(bare) or VIEWS.search(bare):
        return HOST, False
    if PRODUCTS.search(bare):
        return PRODUCT, False
    if ELEMENTWISES.search(bare):
        return ELEMENTWISE, False
    return OTHER, False


def _module_part(name: str, around: int) -> int:
    """Part of what a module calls, as its own name says, else as the module around it."""
    found = next((part for part, pattern in MODULES if pattern.search(name)), None)
    return around if found is None else PARTS.index(found)


def _is_square(dims: Dims, tokens: int) -> bool:
    """A call reads or, as a product, returns scores of every token for every other."""
    wide = [one for one in dims if len(one) >= 3]
    returned = [(wide[0][-2], wide[1][-1])] if len(wide) == 2 else []
    return tokens > 1 and any(
        pair == (tokens, tokens) for pair in (*((one[-2], one[-1]) for one in wide), *returned)
    )
