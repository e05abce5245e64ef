"""Figures, tables and one page from records. No module here computes a result or names an experiment."""
