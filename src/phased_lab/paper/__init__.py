"""The experiments: a file or a folder for each figure, table or claim of the paper, and for each question beyond it.

Every `phased_lab.runs.descriptor.Experiment` in one of these modules is an experiment; its studies are functions that take a run
and yield changed copies, `@EXPERIMENT.study`. What is only drawn is one function, `@drawing`.
"""
