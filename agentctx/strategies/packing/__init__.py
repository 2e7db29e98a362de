"""Which units of a transcript are worth the room they take."""
