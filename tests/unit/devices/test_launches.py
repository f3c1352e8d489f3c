"""How much a device is asked to do, and how often the host waits: budgets, by the stand-in.

``benchmarks/launches.py`` prints the same numbers.
"""

from __future__ import annotations

from benchmarks.launches import measured

BUDGETS = {
    "update, dicts of 32 images": 40,
    "update, dicts, targets on the host": 40,
    "update, packed": 20,
    "update, dense": 20,
    "update, masks of 32 images": 40,
    "update, mean IoU from logits": 8,
    "update, mean IoU from label maps": 8,
    "update, classification": 10,
    "flush of a chunk": 200,
    "flush of masks": 200,
    "compute, COCO": 600,
}
WAITS = {"compute, COCO": 12}
"""Two for the chunks that the device has matched, nine for the curves, whatever the images."""


def test_launches_and_waits_stay_within_their_budgets() -> None:
    found = measured(few=True)
    assert found.keys() == BUDGETS.keys()
    for name, (launches, waits) in found.items():
        assert 0 < launches <= BUDGETS[name], (name, launches)
        assert waits <= WAITS.get(name, 0), (name, waits)


def test_more_images_are_not_more_launches() -> None:
    """The same for 64 images as for 32, but for the blocks of classes of a large data set."""
    few, many = measured(few=True), measured(few=False)
    assert {name: few[name] for name in few if name != "compute, COCO"} == {
        name: many[name] for name in many if name != "compute, COCO"
    }
