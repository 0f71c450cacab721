"""Size of a vision tower, set apart from the language model: an estimate by its own widths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEPTHS = ("depth", "num_hidden_layers", "vt_num_hidden_layers", "num_layers", "layers")
WIDTHS = ("embed_dim", "hidden_size", "vt_hidden_size", "width")
MLP_WIDTHS = ("intermediate_size", "vt_intermediate_size", "mlp_dim")


def vision_parameters(document: Mapping[str, Any]) -> int:
    """Parameters of the tower's blocks and patches; 0 where the file has no tower or no widths.

    Notes
    -----
    Plain transformer blocks of 4 w^2 + 2 w f and one patch matrix; merger and projector are not
    in it. The tower is never part of the headline, so nothing that is planned depends on it.
    """
    tower = document.get("vision_config")
    if not isinstance(tower, dict):
        return 0
    depth, width, mlp = (_first(tower, names) for names in (DEPTHS, WIDTHS, MLP_WIDTHS))
    if not depth or not width:
        return 0
    mlp = mlp or int(width * (_number(tower.get("mlp_ratio")) or 4))
    patch = int(_number(tower.get("patch_size")) or 0)
    frames = int(_number(tower.get("temporal_patch_size")) or 1)
    return depth * (4 * width * width + 2 * width * mlp) + 3 * frames * patch * patch * width


def _first(tower: Mapping[str, Any], names: tuple[str, ...]) -> int:
    return next((int(_number(tower[n])) for n in names if _number(tower.get(n))), 0)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < 1e9 else 0.0
