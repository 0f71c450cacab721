"""Traces of 100 MB are imported in a minute and a gigabyte."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "planner"))

import chakra_files  # noqa: E402 - helpers of the tests of the importers
from trace_files import event, trace  # noqa: E402 - the same

BYTES = 100_000_000
MEASURED = """
import atexit, resource, sys
atexit.register(lambda: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr))
from planner.cli import main
main()
"""

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


def write_graph(path):
    """A chain of products and all-reduces with as many attributes as recorders write."""
    more = {f"attribute {i}": i for i in range(12)}
    with path.open("wb") as file:
        written, i = file.write(chakra_files.trace()), 1
        while written < BYTES:
            kind, told = chakra_files.COMPUTE, more
            if i % 4 == 0:
                kind, told = (
                    chakra_files.COLLECTIVE,
                    {"comm_type": 0, "comm_size": 1 << 20, **more},
                )
            body = chakra_files.node(i, kind, 100, (i - 1,) if i > 1 else (), **told)
            written += file.write(chakra_files.varint(len(body)) + body)
            i += 1


LARGE = {
    "kineto": ("large.json", write_large, ()),
    "chakra": ("large.et", write_graph, ("--set", "accelerator=H100-SXM", "--set", "group=8")),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_trace_of_100_megabytes(tmp_path, tell, kind):
    """A real step of a large model could not be brought in."""
    name, write, settings = LARGE[kind]
    path = tmp_path / name
    write(path)
    words = ["import", kind, path, "--to", tmp_path / "own", *settings]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words], cwd=ROOT, check=False, capture_output=True
    )
    took_s = time.perf_counter() - start
    held = int(done.stderr.split()[-1]) * 1024
    tell(f"import of 100 MB of {kind}", f"{took_s:.1f} s", "60 s")
    tell("memory of it", f"{held / 1e6:.0f} MB", "1000 MB")
    assert done.returncode == 0, done.stderr
    assert took_s <= 60.0
    assert held <= 1e9
