"""Figure 4a: is each of two superimposed waves in its target range?"""

from phased_lab.paper.frequency import DATA, PERIODS, clock
from phased_lab.paper.superimposed import runs
from phased_lab.runs.descriptor import BN_LSTM, LSTM, PHASED, Claim, Experiment, Study, Words

EXPERIMENT = Experiment(
    name="superimposed",
    number="Fig. 4a",
    title="Two superimposed waves",
    place=41,
    studies=(Study("superimposed", "Figure 4a: two waves at once", runs.runs, PERIODS),),
    models=(PHASED, BN_LSTM, LSTM),
    conditions={"superimposed": Words("two waves, asynchronous", "two waves")},
    data=DATA,
    chance=0.5,  # two balanced classes
    finding="the Phased LSTM learns fast and with little variance; the others stay near chance.",
    # Read off the authors' published plots, after the last epoch.
    claims={
        ("phased", "superimposed"): Claim(0.93, 0.94, epochs=300),
        ("bn-lstm", "superimposed"): Claim(0.50, 0.60, epochs=300),
        ("lstm", "superimposed"): Claim(0.50, 0.60, epochs=300),
    },
    charts=("learning", "updates", "gates"),
    clock=clock,
)
