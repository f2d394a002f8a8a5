"""The command line: one verb a module; the only place that prints."""
