"""A training step as the PyTorch profiler writes it: small, of our own making.

Keys and nesting are those of libkineto's Chrome trace logger (schema version 1, External ids,
Input Dims, collectives with their sizes), as public traces and pytorch/pytorch's tests have them.
"""

import json

MM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"
FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>"
STRANGE = "my_own_kernel_without_a_word_for_it"

PRODUCTS = {(8192, 4096, 6144): 640.0, (8192, 4096, 4096): 430.0, (8192, 14336, 4096): 1500.0}
"""(rows, inner, columns) to microseconds on an H100: 630 to 650 TFLOP/s."""


class Recorder:
    """Events as they would be recorded, one operator after another."""

    def __init__(self):
        self.events, self.at, self.identity = [], 1000.0, 0

    def kernel(self, name, lasts, operator="", args=None, **more):
        """An operator, its launch and its kernel."""
        self.identity += 1
        identity, start = self.identity, self.at
        if operator:
            self.events.append(
                event("cpu_op", operator, start, 8.0, {"External id": identity, **(args or {})})
            )
        tie = {"External id": identity, "correlation": identity}
        self.events.append(event("cuda_runtime", "cudaLaunchKernel", start + 2.0, 4.0, tie))
        self.events.append(
            event("kernel", name, start + 10.0, lasts, {**tie, "stream": 7, **more})
        )
        self.at = start + 10.0 + lasts

    def product(self, shape, lasts, kind="c10::BFloat16"):
        """One matrix product."""
        rows, inner, columns = shape
        dims = {"Input Dims": [[rows, inner], [inner, columns]], "Input type": [kind, kind]}
        self.kernel(MM, lasts, "aten::mm", dims)


def event(category, name, start, lasts, args):
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1,
        "ts": start, "dur": lasts, "args": args,
    }  # fmt: skip


def trace(events, **about):
    """A whole trace; `about` replaces what stands beside the events."""
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
        "cuda_runtime_version": 12060,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1743521598000000000,
        **about,
        "traceEvents": events,
    }


def training_step(times=4):
    """Events of some steps of products, attention, an all-reduce and an addition."""
    recorder = Recorder()
    for i in range(times):
        begin = recorder.at
        for shape, lasts in PRODUCTS.items():
            recorder.product(shape, lasts * (1.0 + 0.01 * (i % 3)))
        recorder.product((64, 64, 64), 9.0, kind="float")
        recorder.kernel(FLASH, 700.0, "aten::_flash_attention_forward")
        recorder.kernel(ADD, 60.0, "aten::add")
        message = {"Collective name": "allreduce", "In msg nelems": 33554432, "Group size": 8}
        recorder.kernel(NCCL, 300.0, "c10d::allreduce_", **message, dtype="BFloat16")
        recorder.events.append(
            event("user_annotation", f"ProfilerStep#{i}", begin, recorder.at - begin, {})
        )
    return recorder.events


def write_trace(path, events=None, **about):
    """The file of a trace; the path."""
    path.write_text(json.dumps(trace(training_step() if events is None else events, **about)))
    return path


def on_a_device(host, slower=1.0, kind="c10::BFloat16"):
    """Events of a step on a host as those of a device: what took time there is a kernel here.

    Parameters
    ----------
    host : events of one thread
    slower : times that the device takes, of the host's
    """
    calls = sorted((e for e in host if e["cat"] == "cpu_op"), key=lambda e: (e["ts"], -e["dur"]))
    own, around = {}, []
    for i, call in enumerate(calls):
        while around and around[-1][0] <= call["ts"]:
            around.pop()
        if around:
            own[around[-1][1]] -= call["dur"]
        own[i] = call["dur"]
        around.append((call["ts"] + call["dur"], i))
    events = [{**e, "args": {}} for e in host if e["cat"] != "cpu_op"]
    for i, call in enumerate(calls):
        types = [kind if one == "float" else one for one in call["args"].get("Input type", [])]
        tie = {"External id": i + 1, "correlation": i + 1}
        events.append({**call, "args": {**call["args"], **tie, "Input type": types}})
        if own[i] > 0.0:
            events.append(event("cuda_runtime", "cudaLaunchKernel", call["ts"], 0.0, tie))
            name = f"kernel of {call['name']}"
            events.append(event("kernel", name, call["ts"], own[i] * slower, tie))
    return events
