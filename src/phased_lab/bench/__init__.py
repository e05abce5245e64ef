"""Benchmarks against other implementations. Each is the function of its name in its module."""

BENCHMARKS = {
    "cpu": "Training and inference on a CPU against nn.LSTM: time, memory, and growth with the size of the problem.",
    "cuda": "Training and inference on an NVIDIA GPU against nn.LSTM (cuDNN): time, memory, precision, long sequences.",
    "stream": "An event of a stream on one core, against nn.LSTM, nn.LSTMCell and onnxruntime.",
    "tasks": "A training step of each of the paper's synthetic tasks, and the time of a whole run.",
    "nmnist": "An event of a recording on one core: the classifier against a BN-LSTM by onnxruntime and by torch.",
    "epoch": "An epoch of training on recordings of digits.",
    "lipreading": "A training step of lip reading on made-up clips, and its updates.",
    "tables": "Accuracy of the estimators on public and made-up tables, by cross-validation, and of other models.",
    "online": "An event of an online sequence of an estimator, on one core.",
    "reading": "Rows per second of `Events.read` on one core: CSV, Parquet and a frame in memory.",
    "memory": "Peak memory of `fit` of an estimator, against the memory of the sequences.",
    "startup": "Seconds and imported modules of commands and imports in new interpreters.",
}
"""The subject of each benchmark, for a list that imports no benchmark."""
MODULES = dict.fromkeys(("tasks", "epoch", "lipreading"), "training")
"""The modules of benchmarks. The other modules have the name of their benchmark."""
