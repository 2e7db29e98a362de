"""The values: plain, frozen, equal when they look equal."""
