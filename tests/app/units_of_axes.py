"""The axes of a chart that measure something, and those of them that do not say in what."""

import re

UNIT = re.compile(r"\[[^\[\]]+\]$")


def layers_of(spec):
    """Every view inside a specification."""
    for key in ("layer", "hconcat", "vconcat", "concat"):
        for inner in spec.get(key, ()):
            shared = {**spec.get("encoding", {}), **inner.get("encoding", {})}
            yield from layers_of({**inner, "encoding": shared})
    if "mark" in spec:
        yield spec


def without_units(spec):
    """Titles of measuring axes that do not end in a unit in brackets.

    Of one direction, an axis takes its title from any of its layers: one has to say it. An axis
    that is hidden says nothing; one of names has no unit.
    """
    said = {"x": [], "y": []}
    for layer in layers_of(spec):
        for name, titles in said.items():
            channel = layer.get("encoding", {}).get(name)
            if channel and "field" in channel and is_measuring(channel):
                title = channel.get("title", channel["field"])
                titles.append(" ".join(title) if isinstance(title, list) else title or "")
    return [
        titles[0] or f"{name} of {spec.get('description')}"
        for name, titles in said.items()
        if titles and not any(UNIT.search(title) for title in titles)
    ]


def is_measuring(channel):
    """Numbers along a line, or times: not names, and not an axis that is not drawn."""
    if channel.get("axis", {}) is None:
        return False
    return channel["type"] == "quantitative" or "year" in str(channel["field"])
