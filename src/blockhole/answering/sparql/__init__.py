"""SPARQL over edges that are missing: parsed by rdflib, answered by the engine, with a probability for every row."""
