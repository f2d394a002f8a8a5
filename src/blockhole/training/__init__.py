"""Training: the loop, losses, penalties, negatives, runs on disk."""
