"""Reports and replays as text: pure functions."""
