"""In which precision a file keeps weights, cache and state, from its kinds of quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
