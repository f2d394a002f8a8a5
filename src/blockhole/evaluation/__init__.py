"""Evaluation: ranking, classification, completion, reports."""
