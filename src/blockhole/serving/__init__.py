"""Runs over HTTP: an API, and the explorer page that uses it."""
