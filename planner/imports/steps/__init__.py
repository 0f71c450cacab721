"""Steps of a training run, recognised in a trace part by part and matched to a model's passes."""
