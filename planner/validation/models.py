"""The model of a published measurement: the catalogue's, else the shape that the row states."""

from __future__ import annotations

from itertools import product

from costdata.configs import read_model
from planner.validation.rows import TruthRow
from simkernel.errors import MissingFact, PlanError
from simkernel.models import Core, LayerKind, Model, Weight, parameters

SHAPE = ("n_layers", "hidden", "n_heads", "ffn_hidden", "vocab")

FARTHEST = 1.5
"""Shapes of published rows come within 13% of their size, those of another model far outside."""


def model_of_row(row: TruthRow) -> Model:
    """The model a row was measured on.

    Raises
    ------
    MissingFact : no config.json, and the row does not state the shape of a dense model; or the
        row states other layers or widths than the config.json its label stands for, or a shape of
        another size than it states
    """
    try:
        model = read_model(row.text("model"))
    except PlanError as error:
        return _stated(row, error)
    for name, have in (("n_layers", model.layers), ("hidden", model.hidden)):
        given = row.count(name)
        if given is not None and given != have:
            raise MissingFact(f"row has {name} {given}, config.json of {model.name} has {have}")
    return model


def _stated(row: TruthRow, error: PlanError) -> Model:
    """A dense transformer from the columns of the row.

    Whether its MLP is gated and its embedding tied is not a column: of the four the one whose
    parameters come nearest to `params_b` is taken.
    """
    lacking = [name for name in (*SHAPE, "params_b") if row.number(name) is None]
    if row.text("n_experts"):
        lacking.append("config.json of an expert model")
    if lacking:
        raise MissingFact(f"{error}; the row does not state {', '.join(lacking)}")
    published = (row.number("params_b") or 0.0) * 1e9
    _refuse_size(row, published, float(row.count("n_layers") or 1) * (row.count("hidden") or 1))
    shapes = [_dense(row, gated, tied) for gated, tied in product((False, True), repeat=2)]
    nearest = min(shapes, key=lambda m: abs(float(parameters(m).total) - published))
    count = float(parameters(nearest).total)
    _refuse_size(row, published, count)
    _refuse_size(row, count, published)
    return nearest


def _refuse_size(row: TruthRow, most: float, parameters: float) -> None:
    """A shape whose size is not within a factor of the published one is another model's."""
    if parameters > FARTHEST * most:
        raise MissingFact(
            f"the shape of {row.text('model')} does not make params_b {row.text('params_b')}: "
            f"off by more than {FARTHEST:g} times; give the model's own widths"
        )


def _dense(row: TruthRow, gated: bool, tied: bool) -> Model:
    layers, hidden, heads, width, vocab = (row.count(name) or 1 for name in SHAPE)
    kv_heads = row.count("n_kv_heads") or heads
    dim = row.count("head_dim") or hidden // heads
    up = Weight("gate_up", hidden, 2 * width, "column")
    weights = (
        Weight("q", hidden, heads * dim, "column"),
        Weight("kv", hidden, 2 * kv_heads * dim, "column"),
        Weight("o", heads * dim, hidden, "row"),
        up if gated else Weight("up", hidden, width, "column"),
        Weight("down", width, hidden, "row"),
    )
    core = Core("softmax", heads, kv_heads, dim, dim)
    kind = LayerKind("dense", weights, core, 2 * hidden, "dense", width, gated)
    name = row.text("model")
    return Model(name, hidden, vocab, tied, row.count("seq_len") or 1, (kind,), (0,) * layers)
