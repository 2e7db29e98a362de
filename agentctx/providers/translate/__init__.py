"""What another provider's messages, tools and media become in a format, as data and small functions."""
