"""One module per figure, table or claim of the paper: a frozen dataclass of settings, and `run`. Nothing here draws."""
