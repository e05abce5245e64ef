"""Results in, figures out; nothing here computes a result."""
