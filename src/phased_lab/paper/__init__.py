"""The experiments: one folder for each figure, table or claim of the paper, and for each question beyond it.

The descriptor of an experiment is EXPERIMENT in the folder's `__init__.py`; see `phased_lab.runs.descriptor`.
"""
