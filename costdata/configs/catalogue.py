"""Models by name: the catalogue in tables/models, its aliases, and paths to a user's own files."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from costdata.configs.document import read_config
from costdata.configs.family import TABLES
from simkernel.errors import MissingFact, UnknownName, unknown
from simkernel.models import Model


@dataclass(frozen=True)
class ModelFacts:
    """What was published about a model, and where its file comes from: a row of models.csv.

    Parameters
    ----------
    slug : the name that is stored
    hf_id : the publisher's name, organisation/model
    folder : where its config.json lies below tables/models
    is_transcribed : the config.json was written by us from the source's fields, not copied
    published_parameters, published_active_parameters : headline counts; None if not published
    active_convention : which of `simkernel.models.ACTIVE_CONVENTIONS` the active count follows;
        "" if not published
    kv_bytes_per_token : published-shape keys and values in BF16, all layers; None if not listed
    weight_precision, cache_precision, kept_parts : from the quantiser's own file where
        config.json is silent
    """

    slug: str
    hf_id: str
    folder: str
    is_transcribed: bool
    published_parameters: float | None
    published_active_parameters: float | None
    active_convention: str
    kv_bytes_per_token: int | None
    weight_precision: str
    cache_precision: str
    kept_parts: tuple[str, ...]
    published_source: str
    source: str
    as_of: str
    grade: str
    licence: str
    note: str


def model_names() -> tuple[str, ...]:
    """Slugs of all models in the catalogue, in its order."""
    return tuple(_rows())


def model_facts(name: str) -> ModelFacts:
    """The catalogue row of a model, by slug, publisher's name (with `/` or `--`) or alias.

    Raises
    ------
    UnknownName : nothing answers to the name; the nearest names are told
    MissingFact : a label of a published measurement whose model has no config.json
    """
    slug = _slug(name)
    if slug is None:
        raise _no_such_model(name)
    if not slug:
        raise MissingFact(
            f"model {name!r} is a label of published measurements without a config.json; "
            "give its layers, widths and heads as a config.json"
        )
    return _rows()[slug]


def read_model(name_or_path: str) -> Model:
    """A model by catalogue name, or from an unchanged Hugging Face config.json.

    Parameters
    ----------
    name_or_path : slug, publisher's name (with `/` or `--`), alias, or the path of a config.json
        or of the folder that holds one; a name of the catalogue comes first

    Returns
    -------
    Model, named by its slug, or by the folder of the file

    Raises
    ------
    UnknownName : neither a name nor a path
    BadFile : a file that cannot be read, or values that cannot be, all at once
    MissingFact : keys that are missing or not understood, all at once
    """
    if _slug(name_or_path) is not None:
        return _catalogued(model_facts(name_or_path).slug)
    path = Path(name_or_path)
    if path.exists() or path.suffix == ".json":
        return read_config(path, _name_of(path))
    raise _no_such_model(name_or_path)


def _no_such_model(name: str) -> UnknownName:
    names = sorted({*_rows(), *(facts.hf_id for facts in _rows().values())})
    return unknown("model", name, names)


@cache
def _catalogued(slug: str) -> Model:
    facts = _rows()[slug]
    model = read_config(TABLES / facts.folder, slug)
    return replace(
        model,
        weight_precision=facts.weight_precision or model.weight_precision,
        cache_precision=facts.cache_precision or model.cache_precision,
        kept_parts=facts.kept_parts or model.kept_parts,
    )


def _name_of(path: Path) -> str:
    """What to call a model that was read from a path."""
    if path.is_dir():
        return path.resolve().name
    return path.resolve().parent.name if path.name == "config.json" else path.stem


@cache
def _rows() -> Mapping[str, ModelFacts]:
    with (TABLES / "models.csv").open(newline="", encoding="utf-8") as file:
        return {row["slug"]: _facts(row) for row in csv.DictReader(file)}


def _facts(row: Mapping[str, str]) -> ModelFacts:
    return ModelFacts(
        slug=row["slug"],
        hf_id=row["hf_id"],
        folder=row["folder"],
        is_transcribed=row["config"] == "transcribed",
        published_parameters=_billions(row["published_total_b"]),
        published_active_parameters=_billions(row["published_active_b"]),
        active_convention=row["active_convention"],
        kv_bytes_per_token=int(row["kv_bytes_per_token_bf16"] or 0) or None,
        weight_precision=row["weight_precision"],
        cache_precision=row["cache_precision"],
        kept_parts=tuple(filter(None, row["kept_parts"].split(";"))),
        published_source=row["published_source"],
        source=f"{row['source_repo']}@{row['source_commit']} {row['source_path']}",
        as_of=row["as_of"],
        grade=row["grade"],
        licence=row["licence"],
        note=row["note"],
    )


def _billions(text: str) -> float | None:
    return float(text) * 1e9 if text else None


@cache
def _names() -> Mapping[str, str]:
    """Every name that is answered to, and the slug it stands for; "" for no model.

    Names as they are written come first (slug, alias, folder, publisher's name), then the same
    without regard to capitals.
    """
    names = {slug: slug for slug in _rows()}
    with (TABLES / "aliases.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names.setdefault(row["label"], row["canonical"])
    for slug, facts in _rows().items():
        for name in (facts.folder, facts.hf_id, facts.hf_id.replace("/", "--")):
            names.setdefault(name, slug)
    for name, slug in tuple(names.items()):
        names.setdefault(name.lower(), slug)
    return names


def _slug(name: str) -> str | None:
    """The slug that a name stands for; "" where it stands for no model, None where for nothing."""
    return _names().get(name.strip(), _names().get(name.strip().lower()))
