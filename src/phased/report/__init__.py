"""Records in, figures, tables and one page out. Nothing here computes a result, and nothing names an experiment."""
