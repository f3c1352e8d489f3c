"""Every law of :mod:`torch_vocmetrics.testing` over every metric, in one process."""

from __future__ import annotations

from typing import Any

import pytest
from distributed.registry import SUBJECTS, images

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.testing import LAWS, MetricTester, rebatched


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no_ids"])
@pytest.mark.parametrize("name", SUBJECTS)
def test_law(name: str, ids: bool, law: str) -> None:
    subject = SUBJECTS[name]
    batches = rebatched(images(subject, 14, ids=ids), 3)
    MetricTester(subject.new, batches, laws=[law]).check()


class Forgetful(DetectionAP[Any]):
    """Forgets what it has computed."""

    def _distinct(self) -> Any:
        found = super()._distinct()
        self.reset()
        return found


class Sized(DetectionAP[Any]):
    """Drops the first image of a batch of several, and what comes in a batch of one."""

    def update(self, predictions: Any, targets: Any) -> Sized:
        return super().update(predictions[1:], targets[1:])


class Own(DetectionAP[Any]):
    """Keeps its own images only when it merges."""

    def merge(self, *others: Any) -> Own:
        return self


class Arriving(DetectionAP[Any]):
    """Looks away from image ids."""

    def update(self, predictions: Any, targets: Any) -> Arriving:
        bare = [{k: v for k, v in one.items() if k != "image_id"} for one in targets]
        super().update(predictions, bare)
        return self

    def _exported(self) -> Any:
        return super()._exported() | {"image_ids": []}


class Copied(DetectionAP[Any]):
    """Counts copies of images."""

    def _distinct(self) -> Any:
        return [[part] for part in self._joined().whole]


class Kept(DetectionAP[Any]):
    """Keeps its state over ``reset``."""

    def reset(self) -> Kept:
        return self


class Shared(DetectionAP[Any]):
    """Shares its state with its copies."""

    def __deepcopy__(self, memo: Any) -> Shared:
        return self


class Rounded(DetectionAP[Any]):
    """Saves the rows of no image."""

    def _exported(self) -> Any:
        return DetectionAP._exported(self._blank())


class Writing(DetectionAP[Any]):
    """Writes into its inputs."""

    def update(self, predictions: Any, targets: Any) -> Writing:
        super().update(predictions, targets)
        for one in predictions:
            one["scores"] += 1
        return self


def _new(kind: Any) -> Any:
    return lambda: kind(["voc2007", "voc2012", "coco2017"], class_names=["a", "b"])


WRONG = {
    "compute_twice": _new(Forgetful),
    "batch_split": _new(Sized),
    "merge_grouping": _new(Own),
    "merge_order": _new(Arriving),
    "merge_identity": _new(Own),
    "copies_count_once": _new(Copied),
    "reset_forgets": _new(Kept),
    "copies_are_independent": _new(Shared),
    "state_dict_round_trip": _new(Rounded),
    "state_file_round_trip": _new(Rounded),
    "inputs_untouched": _new(Writing),
}


@pytest.mark.parametrize("law", LAWS)
def test_a_wrong_metric_breaks_the_law(law: str) -> None:
    subject = SUBJECTS["detection"]
    batches = rebatched(images(subject, 14, ids=True), 3)
    with pytest.raises(AssertionError, match=r" differences, the first at |without a word"):
        MetricTester(WRONG[law], batches, laws=[law]).check()


def test_a_tester_wants_known_laws_and_batches() -> None:
    subject = SUBJECTS["detection"]
    batches = images(subject, 2, ids=True)
    with pytest.raises(ValueError, match="unknown laws"):
        MetricTester(subject.new, batches, laws=["gravity"])
    with pytest.raises(ValueError, match="fewer than two"):
        MetricTester(subject.new, batches[:1])


def test_processes_of_a_tester() -> None:
    subject = SUBJECTS["detection"]
    batches = rebatched(images(subject, 7, ids=True), 2)
    MetricTester(subject.new, batches).check_processes(2)
