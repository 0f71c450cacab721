"""Models straight from an unchanged Hugging Face config.json, by meaning of its keys.

`catalogue` finds the file, `document` reads it, `layers` says which layer is of which kind,
`attention`, `state` and `mlp` say which matrices a kind has, `assemble` puts them together.
What a type does that its file does not say is in tables/models/families.csv and defaults.csv.
"""

from costdata.configs.catalogue import ModelFacts, model_facts, model_names, read_model
from costdata.configs.document import model_of, read_config

__all__ = ["ModelFacts", "model_facts", "model_names", "model_of", "read_config", "read_model"]
