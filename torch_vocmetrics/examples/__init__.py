"""Programs to run and to copy from: ``python -m torch_vocmetrics.examples.<name>``."""
