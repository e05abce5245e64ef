"""A stream sent to another process, as an argument, by torch's reductions, which send tensors by address."""

import subprocess
import sys

from strategies import BACKENDS

SCRIPT = """
import sys, torch, torch.multiprocessing as multiprocessing
from phased import PhasedGRU, PhasedLSTM, Stream

def child(sent):
    for stream, want in sent:
        torch.testing.assert_close(stream.run(torch.ones(3, 2), [1, 2, 3]), want)
        print("equal")

if __name__ == "__main__":
    sent = []
    for backend in sys.argv[1:]:
        for make in (PhasedLSTM, PhasedGRU):
            stream = Stream(make(2, 4, period=3.0, ratio_on=0.9, backend=backend))
            stream.push([1.0, 2.0], 0.5)
            sent.append((stream, stream.copy().run(torch.ones(3, 2), [1, 2, 3])))
    process = multiprocessing.get_context("spawn").Process(target=child, args=(sent,))
    process.start()
    process.join()
"""


def test_a_stream_of_any_backend_can_be_sent_to_another_process(tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script), *BACKENDS], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["equal"] * 2 * len(BACKENDS), done.stderr
