"""Path queries: their language, exact answers, random walks, and path data sets."""
