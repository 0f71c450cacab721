"""What a model type does that its config.json does not say, and what silence means for it.

Both come from tables: families.csv (biases, norms, gates, which layers have a window) and
defaults.csv (default values of the type's configuration class).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from costdata.configs.keys import Keys

TABLES = Path(__file__).parent.parent / "tables" / "models"

GATED_ACTIVATIONS = frozenset({"silu", "swiglu", "swish", "geglu", "swigluoai", "fatrelu"})
PLAIN_ACTIVATIONS = frozenset({"relu2", "relu", "gelu_new", "gelu_fast", "quick_gelu", "xielu"})


@dataclass(frozen=True)
class Family:
    """One row of families.csv.

    Parameters
    ----------
    gated : "yes" | "no" | "" (by the activation)
    bias : which attention projections have one: "none" | "o" | "qkv" | "qkvo"; "key" and
        "key_qkv" where a switch in the file decides
    mlp_bias : "none" | "yes" | "key"
    qk_norm : "none" | "head" (one norm per head width) | "wide" (over all heads) | "key"
    norms : vectors of hidden width per layer; `norm_bias` doubles each
    window : which layers have the sliding window where the file lists none: "none" | "all" |
        "alternate" | "late" | "every:N" (all but each N-th) | "first:N" (all but i % N = 0) |
        "edges:N" (as every:N, and layer 0 is full too)
    extras : further features by name, read by the room they belong to
    note : where the row comes from, and why a type is "unsupported"
    """

    model_type: str
    gated: str = ""
    bias: str = "key"
    mlp_bias: str = "key"
    qk_norm: str = "key"
    norms: int = 2
    norm_bias: bool = False
    window: str = "unknown"
    extras: frozenset[str] = frozenset()
    note: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the type has a row; an unknown one is read by its keys alone, and strictly."""
        return self.window != "unknown"


@cache
def families() -> Mapping[str, Family]:
    """All rows of families.csv by model type."""
    with (TABLES / "families.csv").open(newline="") as file:
        return {row["model_type"]: _family(row) for row in csv.DictReader(file)}


def family_of(model_type: str) -> Family:
    """The row of a model type, or the empty one that leaves everything to the keys."""
    return families().get(model_type) or Family(model_type)


@cache
def defaults_of(model_type: str) -> Mapping[str, Any]:
    """Default values of the type's configuration class, from defaults.csv."""
    return _all_defaults().get(model_type, {})


def is_gated(keys: Keys, family: Family) -> bool:
    """Whether the MLP has a gate beside its up projection (three matrices, not two)."""
    if family.gated:
        return family.gated == "yes"
    activation = keys.value(
        "hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "activation"
    )
    if str(activation) in GATED_ACTIVATIONS:
        return True
    if str(activation) not in PLAIN_ACTIVATIONS:
        keys.missing(
            "hidden_act",
            f"activation {activation!r} of model type {family.model_type!r} does not tell whether "
            "the MLP is gated; add the type to families.csv",
        )
    return False


def _family(row: Mapping[str, str]) -> Family:
    return Family(
        model_type=row["model_type"],
        gated=row["gated"],
        bias=row["bias"],
        mlp_bias=row["mlp_bias"],
        qk_norm=row["qk_norm"],
        norms=int(row["norms"]),
        norm_bias=row["norm_bias"] == "yes",
        window=row["window"],
        extras=frozenset(filter(None, row["extras"].split(";"))),
        note=row["source"],
    )


@cache
def _all_defaults() -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    with (TABLES / "defaults.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["model_type"], {})[row["key"]] = json.loads(row["value"])
    return found
