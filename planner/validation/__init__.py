"""Predicted against measured: truth files, protocols, scores and the page on accuracy."""
