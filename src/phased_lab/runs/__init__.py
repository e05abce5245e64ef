"""Descriptors, runs, records and sweeps, shared by all experiments. The experiments are in `phased_lab.paper`."""
