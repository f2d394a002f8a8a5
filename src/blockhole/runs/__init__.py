"""A run on disk: settings, checkpoints, names and facts, metrics; written, read and merged."""
