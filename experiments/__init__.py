"""The laboratory: what reproduces the tables and figures of the paper, and what beats them."""
