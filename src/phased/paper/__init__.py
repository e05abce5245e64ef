"""The experiments: one folder for each figure, table or claim of the paper, and for each question beyond it.

A folder's `__init__.py` has its descriptor, EXPERIMENT: see `phased.experiments.descriptor`.
"""
