"""The guide's code runs, and shows what the guide says."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "fusion.md"


def test_the_code_of_the_guide_trains_a_network_to_which_all_three_sensors_matter_and_streams_it():
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    namespace = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), namespace)
    accuracies = namespace["accuracies"]
    assert accuracies.pop("all") > 0.9
    assert sorted(accuracies) == ["without heat", "without light", "without sound"]
    assert all(accuracy < 0.7 for accuracy in accuracies.values())
    assert namespace["stream"].time == max(time for time, _, _ in namespace["arriving"])
