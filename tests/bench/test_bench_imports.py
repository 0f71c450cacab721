"""A trace of 100 MB is imported in a minute and a gigabyte."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "planner"))

from trace_files import event, trace  # noqa: E402 - the test's own folder of helpers

BYTES = 100_000_000
COMMAND = "from planner.cli import main; main()"

pytestmark = pytest.mark.bench


def write_large(path):
    """A trace of products, launches and kernels, as long as wanted."""
    head = json.dumps(trace([]))
    with path.open("w", encoding="utf-8") as file:
        written = file.write(head[: head.rindex("[") + 1])
        i = 0
        while written < BYTES:
            tie = {"External id": i, "correlation": i}
            dims = {
                "Input Dims": [[8192, 4096], [4096, 4096 * (1 + i % 3)]],
                "Input type": ["c10::BFloat16"] * 2,
                "Concrete Inputs": ["", ""],
            }
            parts = [
                event("cpu_op", "aten::mm", 2000.0 * i, 30.0, {**tie, **dims}),
                event("cuda_runtime", "cudaLaunchKernel", 2000.0 * i + 10.0, 5.0, tie),
                event("kernel", "sm90_xmma_gemm" * 6, 2000.0 * i + 20.0, 420.0 * (1 + i % 3), tie),
            ]
            written += file.write(("," if i else "") + ",".join(json.dumps(p) for p in parts))
            i += 1
        file.write("]}")


def test_a_trace_of_100_megabytes(tmp_path, tell):
    """A real step of a large model could not be brought in."""
    path = tmp_path / "large.json"
    write_large(path)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "import", "kineto", path, "--to", tmp_path / "own"],
        cwd=ROOT,
        check=False,
        capture_output=True,
    )
    took_s = time.perf_counter() - start
    held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    tell("import of 100 MB of Kineto", f"{took_s:.1f} s", "60 s")
    tell("memory of it", f"{held / 1e6:.0f} MB", "1000 MB")
    assert done.returncode == 0, done.stderr
    assert took_s <= 60.0
    assert held <= 1e9
