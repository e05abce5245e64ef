"""What experiments share: their descriptors, a run and its record, and sweeps over many runs. The experiments are in `paper`."""
