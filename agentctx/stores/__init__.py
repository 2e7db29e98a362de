"""Where what was left out is kept."""
