"""The laboratory: what makes the paper's numbers with `phased`."""
