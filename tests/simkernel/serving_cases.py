"""Streams, fleets and step tables that the tests of the replay share."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

from simkernel.replay.fleet import Fleet
from simkernel.replay.requests import Requests
from simkernel.replay.tables import StepJoules, StepTables
from simkernel.workload import Prefixes

VIDUR = Path(__file__).parent / "vidur_replay"
VIDUR_FLEET = Fleet(
    replicas=1,
    batching="sarathi",
    routing="round_robin",
    max_batch=128,
    token_budget=512,
    block_tokens=16,
    pool_blocks=100_000,
    max_context_tokens=8192,
    watermark_frac=0.01,
)


def vidur_tables():
    """Vidur's operator times of one layer, summed over 80 layers and put on our grids."""
    layers_s = 80e-3
    with np.load(VIDUR / "op_tables_ms.npz") as file:
        parts = {name: layers_s * file[name] for name in file.files}
    tokens = np.arange(1, len(parts["kv_write_ms"]))
    decodes = np.arange(1, len(parts["decode_attention_ms"]))
    in_eights = np.minimum(-(-tokens // 8) * 8, tokens[-1])
    return StepTables(
        tokens=tokens,
        token_s=parts["dense_ms"][in_eights] + parts["kv_write_ms"][tokens],
        sequences=decodes,
        sequence_s=np.zeros(len(decodes)),
        decode_contexts=64 * np.arange(parts["decode_attention_ms"].shape[1]),
        decode_s=parts["decode_attention_ms"][1:] * np.where(decodes > 1, 1.1, 1.0)[:, None],
        prefill_contexts=64 * np.arange(parts["prefill_attention_ms"].shape[0]),
        prefill_chunks=tokens,
        prefill_s=parts["prefill_attention_ms"][:, 1:],
        several_prefills_frac=1.1,
        context_rounding_tokens=64,
        is_interpolated=False,
    )


def vidur_requests():
    """The stream, Vidur's times to first token, its end-to-end times."""
    with (VIDUR / "requests.csv").open() as file:
        rows = list(csv.DictReader(file))
    column = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    prompts, outputs = column["prompt_tokens"].astype(int), column["output_tokens"].astype(int)
    requests = Requests(column["arrival_s"], prompts, outputs)
    return requests, column["vidur_ttft_s"], column["vidur_e2e_s"]


def linear_tables(
    *, launch_s=0.01, token_s=1e-5, sequence_s=0.0, context_s=1e-8, has_joules=False, **changed
):
    """A step that costs a launch, so much a token, so much a sequence and a cached token."""
    contexts = np.array([0, 1024, 65536])
    sequences, chunks = np.array([1, 64, 512]), np.array([1, 256, 8192])
    parts = {
        "tokens": np.array([1, 1024, 8192]),
        "token_s": launch_s + token_s * np.array([1, 1024, 8192]),
        "sequences": sequences,
        "sequence_s": sequence_s * sequences,
        "decode_contexts": contexts,
        "decode_s": context_s * np.outer(sequences, contexts),
        "prefill_contexts": contexts,
        "prefill_chunks": chunks,
        "prefill_s": context_s * (contexts[:, None] + chunks[None, :]),
    }
    if has_joules:
        joules = [700.0 * parts[f"{p}_s"] for p in ("token", "sequence", "decode", "prefill")]
        parts["joules"] = StepJoules(*joules, idle_w=100.0)
    return StepTables(**{**parts, **changed})


def fleet(batching="chunked_prefill", **changed):
    """A small fleet with a pool that seldom runs dry."""
    limits = {
        "replicas": 1,
        "routing": "round_robin",
        "max_batch": 32,
        "token_budget": 2048,
        "block_tokens": 16,
        "pool_blocks": 4096,
        "max_context_tokens": 2048,
        "watermark_frac": 0.01,
    }
    return Fleet(batching=batching, **{**limits, **changed})


def stream(count=300, per_s=4.0, seed=3, longest=(900, 200)):
    """Poisson arrivals of uniform lengths."""
    rng = np.random.default_rng(seed)
    arrival_s = np.cumsum(rng.exponential(1 / per_s, count))
    prompts = rng.integers(1, longest[0], count)
    return Requests(arrival_s, prompts, rng.integers(1, longest[1], count))


def same(one, other):
    """Whether two results are the same to the last bit."""
    names = ("arrival_s", "start_s", "first_token_s", "finish_s", "replica", "preemptions")
    is_same = [
        np.array_equal(getattr(one, n), getattr(other, n), equal_nan=n.endswith("_s"))
        for n in (*names, "refusal_code")
    ]
    totals = vars(one.totals)
    is_same += [np.array_equal(totals[name], vars(other.totals)[name]) for name in totals]
    return all(is_same)


def families(count=200, per_s=30.0, seed=5, block_tokens=32):
    """Prompts of a few families that begin alike, of any length; some are alike as a whole."""
    rng = np.random.default_rng(seed)
    asked = stream(count, per_s, seed)
    lengths = -(-np.asarray(asked.prompt_tokens) // block_tokens)
    shared = rng.integers(0, 30, count)
    family = rng.integers(0, 4, count)
    hashes = [
        [1000 * f + i if i < s else 10**6 * (row + 1) + i for i in range(n)]
        for row, (f, s, n) in enumerate(zip(family, shared, lengths, strict=True))
    ]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    flat = np.array([one for row in hashes for one in row])
    return replace(asked, prefixes=Prefixes(flat, starts, block_tokens))
