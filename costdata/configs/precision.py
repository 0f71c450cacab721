"""In which precision a file keeps weights, cache and state, from its kinds of quantisation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

KEPT_LISTS = ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers")
PART_NAMES = {
    "attention": r"self_attn|attention\b|mixer\.[qkvo]_proj",
    "state": r"linear_attn|mamba|mixer\.in_proj",
    "indexer": r"indexer",
    "shared_experts": r"shared_expert",
    "mlp": r"mlp\W*(\(gate\|up|gate_proj|up_proj|down_proj)",
}
"""Parts of a parameter ledger, and how files name their modules."""

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
ALGORITHMS = {
    "FP8": "fp8",
    "FP8_BLOCK": "fp8_block",
    "NVFP4": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "MIXED_PRECISION": "nvfp4",
    "MXFP8": "mxfp8",
    "MXFP4": "mxfp4",
    "INT8_SQ": "int8",
    "W4A16_AWQ": "int4",
}


def weight_precision(document: Mapping[str, Any]) -> str:
    """Precision of the bulk of the weights; bf16 where the file does not say."""
    method = _quantisation(document)
    if method is None:
        return DTYPES.get(
            str(_anywhere(document, "dtype") or _anywhere(document, "torch_dtype")), "bf16"
        )
    return _quantised(method)


def kept_parts(document: Mapping[str, Any], layers: int) -> tuple[str, ...]:
    """Parts of the parameter ledger that the quantisation leaves in 16 bits.

    Notes
    -----
    By whole parts: a part counts as kept if the file names it for all layers at once or for at
    least half of them. Embedding, head, router and vectors are always kept and not listed.
    """
    method = _quantisation(document) or {}
    named = [str(n) for key in KEPT_LISTS for n in _list(method.get(key))]
    return tuple(part for part, pattern in PART_NAMES.items() if _is_kept(named, pattern, layers))


def _is_kept(named: Sequence[str], pattern: str, layers: int) -> bool:
    hits = [name for name in named if re.search(pattern, name)]
    numbers = {found[1] for name in hits if (found := re.search(r"layers\.(\d+)\.", name))}
    is_general = any(not re.search(r"layers\.\d+\.", name) for name in hits)
    return is_general or len(numbers) * 2 >= layers > 0


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def cache_precision(document: Mapping[str, Any]) -> str:
    """Precision that the file asks for its keys and values; "" where it is silent."""
    method = _quantisation(document) or {}
    stated = method.get("kv_cache_quant_algo")
    scheme = method.get("kv_cache_scheme")
    if isinstance(scheme, dict):
        return "fp8" if scheme.get("num_bits") == 8 else f"int{scheme.get('num_bits')}"
    return ALGORITHMS.get(str(stated), "")


def state_precision(text: Mapping[str, Any]) -> str:
    """Precision that the file asks for its recurrent state; "" where it is silent."""
    stated = text.get("mamba_ssm_cache_dtype") or text.get("mamba_ssm_dtype")
    return DTYPES.get(str(stated), "")


def _quantised(method: Mapping[str, Any]) -> str:
    name = str(method.get("quant_method", "")).lower()
    if method.get("quant_algo") in ALGORITHMS:
        return ALGORITHMS[str(method["quant_algo"])]
    groups = method.get("config_groups")
    if isinstance(groups, dict) and groups:
        return _by_bits(list(groups.values())[0].get("weights") or {})
    if name == "fp8" or name == "fbgemm_fp8":
        return "fp8_block" if method.get("weight_block_size") else "fp8"
    bits = method.get("bits") or method.get("w_bit") or (4 if method.get("load_in_4bit") else 0)
    return name if name == "mxfp4" else f"int{bits or 8}"


def _by_bits(weights: Mapping[str, Any]) -> str:
    """Precision of a compressed-tensors or modelopt group."""
    bits, is_float = weights.get("num_bits"), weights.get("type") == "float"
    if bits == 4 and is_float:
        return "mxfp4" if weights.get("group_size") == 32 else "nvfp4"
    if bits == 8 and is_float:
        return "fp8_block" if weights.get("strategy") == "block" else "fp8"
    return f"int{bits}"


def _quantisation(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for key in ("quantization_config", "compression_config"):
        found = _anywhere(document, key)
        if isinstance(found, dict) and found:
            return found
    return None


def _anywhere(document: Mapping[str, Any], key: str) -> Any:
    """A key of the outer file, or of its text part."""
    inner = document.get("text_config")
    return document.get(key) or (inner.get(key) if isinstance(inner, dict) else None)
