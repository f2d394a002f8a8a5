"""Graphs too large for memory, as folders that are worked on where they lie."""
