"""Speculative decoding: tokens drafted ahead, verified in one pass, kept as far as they are right.

What a step makes on average follows from how often drafts are right; what drafting and verifying
take is priced like any other pass. How often a method is right is a measured fact of a method, a
model and a text, and not known here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.models import LayerKind, Model, Weight

MOST_DRAFTED = 16
"""Tokens drafted at once, at most: the longest chain that published engines are run with is 8."""

FUSED_STATES = 3
"""Hidden states of the target that an EAGLE-3 head joins (arXiv 2503.01840, section 3.1)."""

JOINED_INPUTS = 2
"""Hidden state and embedding that a prediction layer joins (DeepSeek-V3 report, section 2.2)."""


def token_shares(drafted_tokens: Column, first_frac: Column, later_frac: Column) -> Floats:
    """Chances that a step makes 1, 2, 3 and so on tokens; (MOST_DRAFTED + 1, n).

    Parameters
    ----------
    drafted_tokens : (n,) tokens ahead
    first_frac, later_frac : (n,) chance that the first of them is right, and that each further
        one is if all before it are

    Notes
    -----
    The pass that verifies always makes one token of its own: the right one after the last draft
    that was.
    """
    drafts = np.atleast_1d(np.asarray(drafted_tokens, dtype=float))
    ahead = np.arange(1.0, MOST_DRAFTED + 1.0)[:, None]
    right = np.asarray(first_frac) * np.asarray(later_frac) ** (ahead - 1.0)
    right = np.where(ahead <= drafts, right, 0.0)
    reached = np.concatenate([np.ones((1, right.shape[1])), right])
    return np.asarray(reached - np.concatenate([right, np.zeros((1, right.shape[1]))]))


def expected_tokens(drafted_tokens: Column, first_frac: Column, later_frac: Column) -> Floats:
    """Tokens that a sequence makes in a step, on average; (n,).

    Notes
    -----
    With one chance a for all, (1 - a^(k+1)) / (1 - a) of k drafts.

    References
    ----------
    Leviathan, Kalman, Matias, Fast Inference from Transformers via Speculative Decoding, ICML 2023
    (arXiv 2211.17192), equation 1.
    """
    shares = token_shares(drafted_tokens, first_frac, later_frac)
    return np.asarray((shares * np.arange(1.0, MOST_DRAFTED + 2.0)[:, None]).sum(axis=0))


def token_sd_tokens(drafted_tokens: Column, first_frac: Column, later_frac: Column) -> Floats:
    """Deviation of the tokens of a step; (n,)."""
    shares = token_shares(drafted_tokens, first_frac, later_frac)
    squares = (shares * np.arange(1.0, MOST_DRAFTED + 2.0)[:, None] ** 2).sum(axis=0)
    mean = expected_tokens(drafted_tokens, first_frac, later_frac)
    return np.asarray(np.sqrt(np.maximum(squares - mean**2, 0.0)))


def prediction_layers(model: Model) -> Model:
    """The model's own multi-token-prediction layers as a drafter.

    Each joins a hidden state and an embedding and runs one more layer; the embedding and the head
    are those of the model (DeepSeek-V3 report, arXiv 2412.19437, section 2.2).
    """
    kinds = tuple(
        _joining(model.kinds[code], model.hidden, JOINED_INPUTS)
        for code in dict.fromkeys(model.draft_codes)
    )
    codes = {code: place for place, code in enumerate(dict.fromkeys(model.draft_codes))}
    return _drafter(model, kinds, tuple(codes[code] for code in model.draft_codes))


def eagle_head(model: Model) -> Model:
    """A trained head of one dense layer that reads hidden states of the model.

    Attention as in the model's own layers; its MLP is a dense one of the model, or as wide as the
    experts that a token meets.

    References
    ----------
    Li et al., EAGLE-3, arXiv 2503.01840, section 3.1.
    """
    used = [model.kinds[code] for code in model.layer_codes]
    attends = [kind for kind in used if kind.core is not None and kind.core.kind != "state"]
    dense = next((kind for kind in attends if kind.mlp == "dense"), None)
    kind = dense or _densely(attends[0] if attends else used[0], model.hidden)
    return _drafter(model, (_joining(kind, model.hidden, FUSED_STATES),), (0,))


def _drafter(model: Model, kinds: tuple[LayerKind, ...], codes: tuple[int, ...]) -> Model:
    return replace(
        model,
        name=f"drafter of {model.name}",
        kinds=kinds,
        layer_codes=codes,
        draft_codes=(),
        draft_extra_parameters=0,
        vision_parameters=0,
        lookup_parameters=0,
        other_parameters=0,
        shares_tables=True,
        drafters=(),
    )


def _joining(kind: LayerKind, hidden: int, states: int) -> LayerKind:
    """The layer with the product that joins several states to one before it."""
    joined = Weight("joined", states * hidden, hidden, "replicated")
    return replace(kind, weights=(joined, *kind.weights))


def _densely(kind: LayerKind, hidden: int) -> LayerKind:
    """A layer with experts as one whose MLP is as wide as what a token meets of them."""
    if kind.mlp != "moe":
        return kind
    width = kind.mlp_width * kind.top_k + kind.shared_width
    names = ("router", "shared", "expert")
    kept = tuple(w for w in kind.weights if not w.name.startswith(names))
    ups = 2 if kind.gated else 1
    mlp = (
        Weight("gate_up" if kind.gated else "up", hidden, ups * width, "column"),
        Weight("down", width, hidden, "row"),
    )
    return replace(
        kind,
        weights=(*kept, *mlp),
        mlp="dense",
        mlp_width=width,
        experts=0,
        top_k=0,
        shared_width=0,
        expert_vector_parameters=0,
    )
