"""Training steps of a small transformer on this host's own processor, run and recorded.

`python tests/planner/torch_steps.py FOLDER` recorded `imported/cpu_step.json.gz` and
`imported/cpu_steps.csv` (torch 2.13.0+cpu, one thread of an AMD EPYC): the trace of one shape, and
how long others took.
"""

import csv
import gzip
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

RUNS = 7


@dataclass(frozen=True)
class Shape:
    """What is trained, and on how much at once."""

    sequences: int = 4
    tokens: int = 128
    layers: int = 4
    hidden: int = 256
    vocab: int = 4096

    @property
    def config(self):
        """The model as a Hugging Face file describes it."""
        return {
            "model_type": "gpt2",
            "n_embd": self.hidden,
            "n_layer": self.layers,
            "n_head": self.hidden // 64,
            "n_inner": 4 * self.hidden,
            "n_positions": 1024,
            "vocab_size": self.vocab,
            "activation_function": "gelu",
        }


BASE = Shape()
OTHERS = (
    replace(BASE, sequences=8),
    replace(BASE, sequences=2),
    replace(BASE, tokens=256),
    replace(BASE, layers=8),
    replace(BASE, layers=2),
    replace(BASE, hidden=512),
    replace(BASE, hidden=384, layers=6),
    replace(BASE, sequences=2, tokens=512, hidden=512),
)


def step_of(shape):
    """A function that runs one optimiser step of a decoder with pre-norm layers."""
    import torch
    from torch import nn
    from torch.nn import functional

    torch.set_num_threads(1)
    torch.manual_seed(0)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(shape.hidden), nn.LayerNorm(shape.hidden)
            self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
            self.out = nn.Linear(shape.hidden, shape.hidden)
            self.up = nn.Linear(shape.hidden, 4 * shape.hidden)
            self.down = nn.Linear(4 * shape.hidden, shape.hidden)

        def forward(self, x):
            count, tokens, hidden = x.shape
            parts = self.qkv(self.first(x)).view(count, tokens, 3, hidden // 64, 64)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(count, tokens, hidden))
            return x + self.down(functional.gelu(self.up(self.second(x))))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(shape.vocab, shape.hidden)
            self.places = nn.Embedding(1024, shape.hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(shape.layers))
            self.last = nn.LayerNorm(shape.hidden)
            self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens):
            x = self.table(tokens) + self.places(torch.arange(tokens.shape[1]))
            for layer in self.layers:
                x = layer(x)
            return self.head(self.last(x))

    model = Decoder()
    optimiser = torch.optim.AdamW(model.parameters(), foreach=False)
    tokens = torch.randint(0, shape.vocab, (shape.sequences, shape.tokens))

    def step():
        optimiser.zero_grad()
        logits = model(tokens)
        functional.cross_entropy(logits.view(-1, shape.vocab), tokens.view(-1)).backward()
        optimiser.step()

    return step


def medians_s(shapes, runs=RUNS, midway=None):
    """Median time of a step of each shape after two that warm up [s].

    Of its one thread on the processor: on an idle machine that is how long a step takes, on a
    busy one it is without what others took. Shapes take turns, so that a machine that slows down
    slows all of them; `midway` is called after half of the turns.
    """
    steps = [step_of(shape) for shape in shapes]
    lasts = [[] for _ in shapes]
    for turn in range(runs + 2):
        if turn == runs // 2 + 2 and midway:
            midway()
        for step, mine in zip(steps, lasts, strict=True):
            start = time.thread_time()
            step()
            mine.append(time.thread_time() - start)
    return [statistics.median(mine[2:]) for mine in lasts]


def record(path, shape, steps=5):
    """Write the trace of some steps as the profiler exports it; the path."""
    from torch import profiler

    step = step_of(shape)
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU],
        record_shapes=True,
        schedule=profiler.schedule(wait=1, warmup=1, active=steps),
        on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
    ) as recorder:
        for _ in range(steps + 2):
            step()
            recorder.step()
    return path


def trimmed(path):
    """The trace without what no reader asks for, packed."""
    whole = json.loads(path.read_text())
    kept = ("Input Dims", "Input type")
    events = [e for e in whole["traceEvents"] if e.get("cat") in ("cpu_op", "user_annotation")]
    first = min(e["ts"] for e in events)
    whole["traceEvents"] = [
        {
            **{key: e[key] for key in ("ph", "cat", "name", "pid", "tid", "dur")},
            "ts": round(e["ts"] - first, 3),
            "args": {key: e["args"][key] for key in kept if key in e.get("args", {})},
        }
        for e in events
    ]
    kept = ("schemaVersion", "deviceProperties", "record_shapes", "traceEvents")
    text = json.dumps({key: whole[key] for key in kept}, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0)


def main(folder):
    """Time all shapes, and record the base midway."""
    shapes, path = (BASE, *OTHERS), folder / "whole.json"
    lasts = medians_s(shapes, midway=lambda: record(path, BASE))
    (folder / "cpu_step.json.gz").write_bytes(trimmed(path))
    path.unlink()
    pairs = zip(shapes, lasts, strict=True)
    rows = [{**asdict(shape), "step_s": f"{seconds:.6f}"} for shape, seconds in pairs]
    with (folder / "cpu_steps.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
