"""Keys and values on their way from who computed a prompt to who answers it.

Bytes over the wires of both ends, waits for wires that others use, and what of it layer-wise
sending hides. Which pools there are is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Column, Floats
from simkernel.hardware import OPERATIONS
from simkernel.models import Model, kv_bytes, state_bytes
from simkernel.serving_rig import Rig

SEND = OPERATIONS.index("send")

MOST_USE_FRAC = 0.999
"""Of a wire, in the formula of its wait: beyond it the wait has no end, and a limit says so."""


def sequence_bytes(model: Model, tokens: Column, bytes_per_value: Column) -> Column:
    """Bytes of one sequence that have to move: every key and value once, no copies.

    Shapes as `models.kv_bytes`.
    """
    return kv_bytes(model, tokens, bytes_per_value) + state_bytes(model)


@dataclass(frozen=True)
class End:
    """The wires of one copy of attention, at one end; (n,) each.

    Parameters
    ----------
    bytes_per_s : of all its devices together, as reached
    base_s : latency of a message
    """

    bytes_per_s: Floats
    base_s: Floats

    def beside(self, steps_frac: Column) -> End:
        """What a pool's own steps, which take that share of the time, leave of the wires; (n,)."""
        left_frac = np.maximum(1.0 - np.asarray(steps_frac), LEAST_LEFT_FRAC)
        return End(self.bytes_per_s * left_frac, self.base_s)


LEAST_LEFT_FRAC = 1e-3
"""Of wires, in the formula of a transfer: beyond it a limit says that steps fill them."""


def end_of(rig: Rig) -> End:
    """The wires of every plan: each device of a copy of attention sends or fetches its share."""
    net, devices = rig.network, rig.plans.tensor_parallel * rig.plans.pipeline_parallel
    out, ones = net.scaleout, np.ones(len(rig.plans))
    rate = net.scaleout_bytes_per_s * out.wire_frac[..., SEND] * devices
    base_s = out.base_s[..., SEND] + out.step_s[..., SEND]
    return End(np.asarray(rate * ones), np.asarray(base_s * ones))


def transfer_s(moved_bytes: Column, source: End, destination: End) -> Floats:
    """Time of one transfer on wires that nobody else uses; (n,) [s].

    Parameters
    ----------
    moved_bytes : of one sequence, (n,) or a number

    References
    ----------
    DistServe, arXiv 2401.09670, 4.2: latency, and bytes over the slower end.
    """
    slower = np.minimum(source.bytes_per_s, destination.bytes_per_s)
    return np.asarray(np.maximum(source.base_s, destination.base_s) + moved_bytes / slower)


def exposed_s(moving_s: Column, prefill_s: Column, layers: int) -> Floats:
    """What is left of a transfer after the prompt, where each layer is sent as it is done; (n,).

    Parameters
    ----------
    moving_s : the transfer, waits for wires included [s]
    prefill_s : of the pass that computes the prompt [s]
    layers : of the model

    Notes
    -----
    max(0, t - p (L - 1) / L) + t / L: the last layer's share is always left. Never more than
    without overlap, which a prompt shorter than a layer's transfer would be by that formula.

    References
    ----------
    Splitwise, arXiv 2311.18677, 4.2: layer-wise transfer beside the prompt.
    """
    hidden_s = prefill_s * (layers - 1.0) / layers
    left_s = np.maximum(moving_s - hidden_s, 0.0) + np.asarray(moving_s) / layers
    return np.minimum(left_s, moving_s)


@dataclass(frozen=True)
class Wire:
    """One end under a load, whose transfers go one after another; (n,) each.

    Parameters
    ----------
    use_frac : share of the time that it moves something, its own pool's traffic included
    wait_s, wait_sd_s : of a transfer for those before it
    """

    use_frac: Floats
    wait_s: Floats
    wait_sd_s: Floats


def wire_under(
    end: End,
    transfers_per_s: Floats,
    mean_bytes: Column,
    second_bytes: Column,
    third_bytes: Column,
    other_frac: Column = 0.0,
) -> Wire:
    """An end that so many transfers come to, at random.

    Parameters
    ----------
    transfers_per_s : (n,) that come to this end
    mean_bytes, second_bytes, third_bytes : moments of the bytes of one
    other_frac : share of the time that the wire is busy with its own pool's steps

    References
    ----------
    Pollaczek and Khinchine, the first two moments of the wait in M/G/1; what the pool's own
    steps move slows transfers down by the share of the time they take.
    """
    rate = end.beside(other_frac).bytes_per_s
    use = transfers_per_s * mean_bytes / rate
    free = 1.0 - np.minimum(use, MOST_USE_FRAC)
    wait_s = transfers_per_s * second_bytes / rate**2 / (2.0 * free)
    third = transfers_per_s * third_bytes / rate**3 / (3.0 * free)
    used = transfers_per_s * mean_bytes / end.bytes_per_s + other_frac
    return Wire(np.asarray(used), np.asarray(wait_s), np.sqrt(wait_s**2 + third))
