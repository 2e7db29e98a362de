"""The parts of ``record_session.py``: a place to work in, real tools, and a planner that follows a script."""
