"""Where context comes from: git, files, environment, dependencies, errors; what fades, and what stays put."""
