"""Questions in names, ranked answers out."""
