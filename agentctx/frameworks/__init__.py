"""Plug into an agent framework: a file for each, which imports it; nothing here does."""
