"""What is known of models, as data: windows, encodings, names."""
