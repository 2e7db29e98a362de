"""Who gets how much of the window: tiers, one pure allocation, blocks and what becomes of one that is too large."""
