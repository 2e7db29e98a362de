"""Wrap a provider SDK's client: the same client type, prepared before each model call."""
