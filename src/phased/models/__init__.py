"""Networks for whole sequences: the Phased LSTM and the paper's baselines behind one signature, `model(batch)`."""
