"""BlockHolE: path queries over knowledge graphs that miss edges."""

__version__ = "0.1.0.dev0"
