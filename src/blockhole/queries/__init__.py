"""Queries: their language, exact answers, random walks, and path data sets."""
