"""Made-up metered rows: the real ones of the energy benchmark have no licence."""

import csv

RUN_COLUMNS = (
    "case_id", "model", "gpu", "n_gpu", "tp", "ep", "weight_precision", "engine", "task",
    "avg_batch", "avg_output_len", "tok_s", "joules_per_token", "power_w_per_gpu", "power_scope",
    "source", "anomaly", "use",
)  # fmt: skip
NODE_COLUMNS = (
    "case_id", "what", "value", "unit", "accelerator", "n_accel", "scope", "workload", "source",
)  # fmt: skip
SCOPE = "GPU only, all GPUs (Zeus/NVML), steady state"
MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "meta-llama/Llama-3.1-8B-Instruct")


def run(model="Qwen/Qwen3-8B", gpu="H100", batch=32, rate=3000, watts=480.0, **changes):
    """One serving run on one device."""
    row = {
        "case_id": f"{model}-{gpu}-{batch}", "model": model, "gpu": gpu, "n_gpu": 1, "tp": 1,
        "ep": 1, "weight_precision": "bfloat16", "engine": "vLLM 0.11.1",
        "task": "lm-arena-chat", "avg_batch": batch, "avg_output_len": 650, "tok_s": rate,
        "joules_per_token": watts / rate, "power_w_per_gpu": watts, "power_scope": SCOPE,
        "source": "made up", "use": "yes",
    }  # fmt: skip
    return row | changes


def runs():
    """Twenty-four runs of three models on two chips."""
    return [
        run(model, gpu, batch, rate * batch**0.8, idle + 60 * batch**0.35)
        for model, rate in zip(MODELS, (220.0, 140.0, 230.0), strict=True)
        for gpu, idle in (("H100", 250.0), ("B200", 380.0))
        for batch in (8, 32, 64, 128)
    ]


def node(what="mean power per 8-GPU node", watts=6900.0, source="MLPerf smc (immersion)", **more):
    """One figure of a metered node."""
    row = {
        "case_id": f"{source}-{what}", "what": what, "value": watts, "unit": "W/node",
        "accelerator": "H100-80GB-SXM", "n_accel": 8, "scope": "node AC",
        "workload": "Llama2-70B LoRA fine-tuning", "source": source,
    }  # fmt: skip
    return row | more


def nodes():
    """An immersed and an air-cooled site."""
    return [node(), node(source="MLPerf Dell (air)", watts=7600.0)]


def written(path, rows, columns):
    """A file of rows."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path
