"""Named data sets: found, fetched, verified, loaded; the bundled family graph."""
