"""A run's vectors for other tools: files, faiss, and PostgreSQL with pgvector."""
