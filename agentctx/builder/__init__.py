"""Build a request from blocks: native messages in, native messages and a report out."""
