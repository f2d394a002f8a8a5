"""The graph itself: names, facts, splits, edges."""
