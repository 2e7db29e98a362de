"""One file, one provider format."""
