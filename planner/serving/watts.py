"""Watts of the devices of a serving lane, from what its steps keep busy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costdata.hardware_bill import Working
from simkernel.columns import Floats
from simkernel.lane import Lane
from simkernel.lane_pace import Pace
from simkernel.power import DutyWatts, device_w, duty_watts, fan_w, host_w
from simkernel.serving_rig import Rig
from simkernel.step_curves import EXCHANGED, FLOOR, INSIDE, PEAK_COMPUTE, PEAK_HBM


@dataclass(frozen=True)
class LaneWatts:
    """One device and its shares of host and fans, mean over steps; (n,) each [W].

    `fan_w` is drawn where air cools the server.
    """

    device_w: Floats
    host_w: Floats
    fan_w: Floats

    @property
    def working(self) -> Working:
        """The same as bills take it."""
        return Working(self.device_w, self.host_w, self.fan_w)


def lane_watts(rig: Rig, lane: Lane, at: Pace, cap_frac: Floats) -> LaneWatts:
    """Watts of a steady state, at what it keeps busy on average over all of its time.

    A lane steps for as long as it holds a request; between requests its devices wait. The curves
    are made of whole runs, gaps included, so gaps lower the shares and not the watts.
    """
    return watts_of_shares(rig, mean_shares(lane, at), cap_frac)


def watts_of_shares(rig: Rig, shares: Floats, cap_frac: Floats) -> LaneWatts:
    """Watts of devices that are busy so much, shares as `mean_shares`; (n,)."""
    power = rig.chips.power
    mean_w = np.minimum(device_w(power, *shares[1:]), power.cap_w * cap_frac)
    around = (np.asarray(host_w(power, shares[0])), np.asarray(fan_w(power, shares[0], 1.0)))
    return LaneWatts(np.asarray(mean_w), *around)


def shares_of(kernels: Floats, step_s: Floats, busy_frac: Floats) -> Floats:
    """Shares of all time that the kernels of a step, (k, n), are at work: as `mean_shares`."""
    floor_s = np.maximum(kernels[FLOOR], 1e-12)
    busy = np.minimum(floor_s / step_s, 1.0) * busy_frac
    of_kernels = (PEAK_HBM, PEAK_COMPUTE, INSIDE, EXCHANGED)
    rows = [np.minimum(kernels[i] / floor_s, 1.0) * busy for i in of_kernels]
    return np.stack([busy, *rows])


def mean_shares(lane: Lane, at: Pace) -> Floats:
    """Of all time: kernels at work, memory, arithmetic and links busy, messages alone; (5, n)."""
    held = at.decoding_sequences + at.arrivals
    return shares_of(mean_step(lane, at), at.step_s, 1.0 - np.exp(-held))


def lane_duty(rig: Rig, lane: Lane, at: Pace, cap_frac: Floats) -> DutyWatts:
    """Watts of one device of every plan, to be summed over steps."""
    power, shares = rig.chips.power, mean_shares(lane, at)
    return duty_watts(power, shares[1], shares[2], shares[3], power.cap_w * cap_frac, shares[4])


def mean_step(lane: Lane, at: Pace) -> Floats:
    """Quantities of the kernels of a mean step: plain ones and those with prompts; (k, n)."""
    curves = lane.curves
    decode = curves.of(curves.decode_s, at.decoding_sequences) * np.minimum(
        at.decoding_sequences, 1.0
    )
    head = curves.of(curves.head_s, at.decoding_sequences)
    tokens, carried = at.standing.mean_tokens, at.mean_carried_tokens
    plain = curves.of(curves.layers_s, tokens)
    carrying = curves.of(curves.layers_s, tokens + carried)
    if curves.shared is not None:
        for part_s in (curves.shared.experts_s, curves.shared.exchange_s):
            plain = plain + curves.of(part_s, tokens)
            carrying = carrying + curves.of(part_s, tokens + carried)
    prompts = curves.prompts_s.mean(axis=2)[:, curves.layout] * at.arrivals
    layers = plain + at.carrying_frac * (carrying - plain)
    total = np.asarray(layers + head + decode + prompts)
    if curves.shared is not None:
        hidden_s = np.maximum(total[FLOOR] - at.step_s, 0.0)
        total[FLOOR] -= hidden_s
        total[EXCHANGED] = np.maximum(total[EXCHANGED] - hidden_s, 0.0)
    return total
