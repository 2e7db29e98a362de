"""What a request costs given the provider's cache rules, when a compaction pays, and what an overflow says."""
