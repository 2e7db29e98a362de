"""One file, one strategy."""
