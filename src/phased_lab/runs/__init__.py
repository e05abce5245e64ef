"""What all experiments share: descriptors, runs, records and sweeps. The experiments themselves are in `phased_lab.paper`."""
