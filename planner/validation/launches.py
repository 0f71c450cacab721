"""How published runs started their engines, where their scripts are public and the rows silent.

Options that hold new prompts back: their price stands in the time to first token. One row of
rules/published_launches.csv per model, engine and chips as the scripts have it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from costdata.facts import TABLES
from planner.validation.rows import TruthRow

LAUNCHES = TABLES / "rules" / "published_launches.csv"


@dataclass(frozen=True)
class Launch:
    """What an engine was started with; the defaults are its own: nobody waits.

    `held_steps` that a prompt is held back for at most, `held_prompts` that end the wait,
    `poll_steps` between two looks for new requests, `budget_tokens` of a step, 0 as planned.
    """

    held_steps: float = 0.0
    held_prompts: float = 1.0
    poll_steps: float = 1.0
    budget_tokens: float = 0.0


AS_SHIPPED = Launch()


def launch_of(row: TruthRow, model: str, accelerator: str, tensor: int) -> Launch:
    """Options of the script that the run of a row was started with; the engine's own without one.

    Parameters
    ----------
    row : of InferenceX, whose scripts these are
    model, accelerator : their catalogue names
    tensor : degree of the replica
    """
    prompt, output = row.number("isl") or 1.0, row.number("osl") or 1.0
    known = {
        "engine": row.text("backend"),
        "model": model,
        "accelerator": accelerator,
        "precision": row.text("gemm_quant_mode"),
        "prompt_tokens": f"{prompt:g}",
        "output_tokens": f"{output:g}",
    }
    requests = row.number("concurrency") or 1.0
    for rule in _launches():
        is_named = all(rule[name] in (ANY, value) for name, value in known.items())
        is_inside = float(rule["least_requests"]) <= requests <= float(rule["most_requests"])
        is_then = rule["from_day"] <= row.text("measured") < rule["to_day"]
        if is_named and is_inside and is_then and tensor <= float(rule["most_tensor"]):
            budget = _budget_tokens(rule, prompt, requests)
            held_tokens = float(rule["held_budget_frac"]) * budget
            return Launch(
                held_steps=float(rule["held_steps"]),
                held_prompts=max((held_tokens - requests) / prompt, 1.0),
                poll_steps=float(rule["poll_steps"]),
                budget_tokens=budget,
            )
    return AS_SHIPPED


def _budget_tokens(rule: dict[str, str], prompt_tokens: float, requests: float) -> float:
    """Tokens in a step: a number, or a prompt and one of each request, rounded up to 64s."""
    if rule["budget_tokens"] != ONE_PROMPT:
        return float(rule["budget_tokens"])
    return float((prompt_tokens + requests + 127.0) // 64.0 * 64.0)


ONE_PROMPT = "one_prompt"


ANY = "*"


@cache
def _launches() -> tuple[dict[str, str], ...]:
    with LAUNCHES.open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))
