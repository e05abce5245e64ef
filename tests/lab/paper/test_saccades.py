"""Figure 5: its recording, and what is drawn of it."""

import shutil

import matplotlib as mpl
import numpy as np

from phased_lab.paper import saccades

mpl.use("agg")


def test_without_data_two_rings_are_simulated_and_the_figure_has_every_event_and_the_whole_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASED_DATA", str(tmp_path))
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path))
    shown = saccades.run()
    assert shown.origin == "simulated recording of two rings"
    assert 1000 < len(shown.recording) < 10_000
    assert shown.frame.sum() == len(shown.recording)
    assert shown.frame.shape == (34, 34)
    figure = saccades.draw_saccades(shown)
    words = " ".join(text.get_text() for text in figure.findobj(mpl.text.Text))
    assert "Simulated recording of two rings" in " ".join(words.split())
    path, frame, space = figure.axes
    drawn = np.concatenate([line.get_xydata() for line in path.get_lines()])
    assert {tuple(place) for place in shown.path} == {tuple(place) for place in drawn}
    np.testing.assert_array_equal(frame.images[0].get_array(), shown.frame)
    assert sum(len(dots._offsets3d[0]) for dots in space.collections) == len(shown.recording)
    assert saccades.saccades.draw().finding.startswith("Simulated recording of two rings: ")


def test_a_real_recording_of_an_8_is_taken_where_there_is_one(data_folder):
    shown = saccades.run()
    assert (shown.origin, len(shown.recording)) == ("real recording number 9 of N-MNIST", 28)
    for gone in (data_folder / "nmnist" / "Train" / "8", data_folder / "nmnist"):
        shutil.rmtree(gone)
        assert saccades.run().origin == "simulated recording of image number 9 of MNIST"
