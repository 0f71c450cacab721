"""A model as a document: its counts beside the published ones, its cache, its layers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from costdata.configs import model_facts, read_model
from simkernel.models import (
    active_parameters,
    draft_parameters,
    kv_bytes_per_token,
    parameters,
    training_flop_per_token,
)

CONVENTIONS = ("both_embeddings", "without_input", "without_both")


def model_document(name: str) -> dict[str, Any]:
    """Everything counted from a model's config.json.

    Raises
    ------
    UnknownName, BadFile, MissingFact : as `costdata.configs.read_model`
    """
    model = read_model(name)
    kinds = Counter(model.kinds[code].name for code in model.layer_codes)
    return {
        "kind": "model",
        "name": model.name,
        "hidden": model.hidden,
        "vocab": model.vocab,
        "layers": dict(kinds),
        "tied_embeddings": model.tied_embeddings,
        "weight_precision": model.weight_precision,
        "parameters": float(parameters(model).total),
        "parameters_by_part": parameters(model).as_dict(),
        "active_parameters": {
            convention: float(active_parameters(model, convention).total)
            for convention in CONVENTIONS
        },
        "draft_parameters": float(draft_parameters(model).total),
        "vision_parameters": model.vision_parameters,
        "kv_bytes_per_token_bf16": float(kv_bytes_per_token(model)),
        "training_flop_per_token_at_4096": float(training_flop_per_token(model, 4096.0).total),
        "notes": list(model.notes),
        "published": _published(name),
    }


def _published(name: str) -> dict[str, Any]:
    """What the catalogue knows of a named model; nothing for a file."""
    if name.endswith(".json"):
        return {}
    return {key: str(value) for key, value in vars(model_facts(name)).items()}
