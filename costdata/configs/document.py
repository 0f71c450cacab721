"""Reading one config.json: JSON faults, the text part of a nested file, keys that nobody knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from costdata.configs.assemble import assemble
from costdata.configs.family import defaults_of, family_of
from costdata.configs.keys import Faults, Keys, count_fault
from costdata.configs.meanings import MEANINGS, SIZE_KEYS
from costdata.configs.precision import (
    cache_precision,
    kept_parts,
    state_precision,
    weight_precision,
)
from costdata.configs.strangers import is_architecture_key, is_architecture_size
from costdata.configs.vision import vision_parameters
from simkernel.errors import BadFile
from simkernel.models import Model

TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config", "text_model")
"""Where a multimodal file keeps its language model."""

SHARED_KEYS = ("tie_word_embeddings", "quantization_config", "dtype", "torch_dtype")
"""Keys of the outer file that hold for the text part when that is silent."""

MAX_FILE_BYTES = 32 * 2**20  # published files are below 1 MB; a weight file is not a config


def read_config(path: Path, name: str) -> Model:
    """The model that an unchanged config.json describes.

    Parameters
    ----------
    path : the file, or the folder that holds it
    name : what the model is called in the result

    Raises
    ------
    BadFile : unreadable, not JSON, not an object, or values that cannot be; all at once
    MissingFact : keys that are missing or not understood; all at once
    """
    path = path / "config.json" if path.is_dir() else path
    return model_of(load(path), name, str(path))


def load(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file; `Infinity` and `NaN` are read, as transformers writes them.

    Raises
    ------
    BadFile : missing, too big, not text, not JSON, or not an object
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BadFile(f"{path} is larger than {MAX_FILE_BYTES} bytes; give a config.json")
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}; check the path") from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError alone
        raise BadFile(f"{path} is not JSON: {error}; fetch the file again") from error
    if not isinstance(document, dict):
        raise BadFile(f"{path} holds a JSON {type(document).__name__}; a config.json is an object")
    return document


def model_of(document: Mapping[str, Any], name: str, where: str) -> Model:
    """The model in a JSON object that was already read; raises as `read_config`."""
    faults = Faults(where)
    keys = _text_keys(document, faults)
    _check_values(keys)
    _check_keys(keys)
    model = assemble(keys, name)
    faults.raise_all()
    return replace(
        model,
        vision_parameters=vision_parameters(document),
        weight_precision=weight_precision(document),
        cache_precision=cache_precision(document),
        kept_parts=kept_parts(document, model.layers),
        state_precision=state_precision(keys.file),
        notes=tuple(dict.fromkeys(faults.notes)),
    )


def _text_keys(document: Mapping[str, Any], faults: Faults) -> Keys:
    """The keys of the language model, wherever the file keeps it."""
    text, is_nested = document, False
    inner = next((document[n] for n in TEXT_PARTS if isinstance(document.get(n), dict)), None)
    while inner is not None:
        text, is_nested = {**_shared(text), **inner, **_untied(text)}, True
        inner = next((text[n] for n in TEXT_PARTS if isinstance(text.get(n), dict)), None)
    model_type = _model_type(text, document, faults)
    own = text.get("attn_config") or text.get("ffn_config")
    if isinstance(own, dict):
        text = {
            **{
                k: v
                for part in ("attn_config", "ffn_config")
                for k, v in (text.get(part) or {}).items()
                if k in SIZE_KEYS
            },
            **text,
        }
    return Keys(text, defaults_of(model_type), faults, model_type, is_nested)


def _shared(outer: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the outer file says for its text part, unless that says otherwise."""
    return {key: outer[key] for key in SHARED_KEYS if key in outer}


def _untied(outer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The head belongs to the outer model: where that says it is untied, it is."""
    is_untied = outer.get("tie_word_embeddings") is False
    return {"tie_word_embeddings": False} if is_untied else {}


def _model_type(text: Mapping[str, Any], document: Mapping[str, Any], faults: Faults) -> str:
    """The type of the language model; an outer type stands for its text part."""
    given = text.get("model_type") or document.get("model_type")
    if not isinstance(given, str) or not given:
        faults.notes.append("model_type is not stated: read by its keys alone")
        return ""
    for candidate in (given, f"{given}_text"):
        if family_of(candidate).is_known:
            return candidate
    faults.notes.append(f"model_type {given!r} is not known: read by its keys alone")
    return given


def _check_values(keys: Keys) -> None:
    """Note every size that cannot be a count, whether or not the model needs it."""
    for name, value in keys.file.items():
        if name not in SIZE_KEYS or value is None or isinstance(value, str):
            continue
        for item in value if isinstance(value, list) else (value,):
            if item is not None and count_fault(item):
                keys.faults.bad.setdefault(name, f"{name} is {item!r}, {count_fault(item)}")
                break
    _check_heads(keys)


def _check_heads(keys: Keys) -> None:
    """Note a hidden width that its heads do not divide where no head width is stated."""
    hidden, heads = (keys.value(*MEANINGS[m]) for m in ("hidden", "heads"))
    is_bare = not any(keys.value(n) for n in (*MEANINGS["head_dim"], *MEANINGS["kv_lora_rank"]))
    if not isinstance(hidden, int) or not isinstance(heads, int) or heads < 1:
        return
    if is_bare and hidden % heads:
        keys.faults.bad.setdefault(
            "heads",
            f"hidden_size {hidden} is not divisible by num_attention_heads {heads}, and head_dim "
            "is not stated; state it",
        )


def _check_keys(keys: Keys) -> None:
    """Refuse keys of an unknown type that may change the count and that nothing here reads."""
    family = family_of(keys.model_type)
    if "unsupported" in family.extras:
        keys.missing(
            "model_type",
            f"model_type {keys.model_type!r} has layers whose shape is not "
            f"known here ({family.note})",
        )
    if family.is_known and "strict" not in family.extras:
        return
    is_suspect = is_architecture_size if family.is_known else is_architecture_key
    for name, value in keys.file.items():
        if is_suspect(name, value):
            keys.missing(
                name,
                f"{name} = {str(value)[:60]} of model type {keys.model_type!r} may "
                "change the architecture and is not understood; add the type to families.csv",
            )
