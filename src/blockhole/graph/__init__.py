"""Graphs: vocabularies, facts, adjacency, and the files they come from."""
