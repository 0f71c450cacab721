"""Lengths of the requests of a stream, in the few figures that a closed form reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simkernel.columns import Codes, Column, Floats

SHARES = 16
"""Equal shares of the prompts that stand for their lengths."""


@dataclass(frozen=True)
class Mix:
    """Lengths of the requests of a stream.

    Parameters
    ----------
    prompt_tokens : (q,) means of equal shares of the prompts, sorted: tokens to compute
    cached_tokens : (q,) tokens of them that a cache has, and that they meet
    prompt_tokens_mean, prompt_sd_tokens, output_tokens_mean, output_sd_tokens : tokens
    context_tokens : keys that a decoding sequence meets: long answers decode longest
    answer_share_frac : mean of 1 / (output - 1) over requests with later tokens

    Notes
    -----
    Numbers of one stream; (several, 1) of several that are looked at side by side, their prompts
    (q, several, 1).
    """

    prompt_tokens: Floats
    prompt_tokens_mean: Column
    prompt_sd_tokens: Column
    output_tokens_mean: Column
    output_sd_tokens: Column
    context_tokens: float
    answer_share_frac: Column
    cached_tokens: Floats

    @cached_property
    def later_tokens(self) -> Column:
        """Output tokens after the first, on average."""
        return np.maximum(self.output_tokens_mean - 1.0, 0.0)

    def rows_taken(self, rows: Codes) -> Mix:
        """The same for some candidates: all serve one stream."""
        return self


def mix_of(prompt_tokens: Codes, output_tokens: Codes, cached_tokens: Codes | None = None) -> Mix:
    """Lengths of some requests as the closed form reads them.

    Parameters
    ----------
    prompt_tokens, output_tokens : (n,) as asked
    cached_tokens : (n,) of the prompts that a cache has; None where there is none
    """
    whole, output = prompt_tokens.astype(float), output_tokens.astype(float)
    cached = np.zeros(len(whole)) if cached_tokens is None else cached_tokens.astype(float)
    prompt = whole - cached
    later = np.maximum(output - 1.0, 0.0)
    parts = np.array_split(np.argsort(prompt, kind="stable"), min(SHARES, len(prompt)))
    steps = max(float(later.sum()), 1e-9)
    return Mix(
        prompt_tokens=np.array([prompt[part].mean() for part in parts]),
        prompt_tokens_mean=float(prompt.mean()),
        prompt_sd_tokens=float(prompt.std()),
        output_tokens_mean=float(output.mean()),
        output_sd_tokens=float(output.std()),
        context_tokens=float((later * (whole + (output + 1.0) / 2.0)).sum() / steps)
        if later.any()
        else float(whole.mean()),
        answer_share_frac=float(np.mean(1.0 / later[later > 0])) if later.any() else 1.0,
        cached_tokens=np.array([cached[part].mean() for part in parts]),
    )
