"""Metrics run torch operations on one thread, and nobody's setting is another one afterwards."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed.registry import SUBJECTS, Subject, images
from torch.utils._python_dispatch import TorchDispatchMode

from torch_vocmetrics import DetectionAP, InputError, Metric
from torch_vocmetrics import host_work as module
from torch_vocmetrics.metrics.mask_quality import MaskQuality

MANY = 5


class ThreadCounts(TorchDispatchMode):
    """Collects the number of intra-op threads under which operations run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(torch.get_num_threads())
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def _many_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(MANY)
    yield
    torch.set_num_threads(before)


def filled(subject: Subject) -> Metric[Any]:
    metric = subject.new()
    for image in images(subject, 6, ids=True):
        metric.update(*image)
    return metric


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_method_works_on_one_thread(name: str, tmp_path: Path) -> None:
    subject = SUBJECTS[name]
    metric, other = filled(subject), filled(subject)
    arguments, state = subject.image(9, ids=True), other.state_dict()
    methods: list[Callable[[], Any]] = [
        lambda: metric.update(*arguments),
        lambda: metric.merge(other),
        lambda: metric.compute(sync=False),
        metric.state_dict,
        lambda: metric.save_state(tmp_path / "state.npz"),
        lambda: metric.load_state_dict(state),
        lambda: metric.load_state(tmp_path / "state.npz"),
        lambda: metric.to("cpu"),
        lambda: Metric.from_states(tmp_path / "state.npz"),
    ]
    for method in methods:
        with ThreadCounts() as counts, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of images that came twice
            method()
        assert counts.seen <= {1}
        assert torch.get_num_threads() == MANY


def test_mask_quality_works_on_one_thread() -> None:
    mask = torch.ones(1, 4, 4, dtype=torch.bool)
    side = {"boxes": torch.tensor([[0.0, 0, 4, 4]]), "labels": torch.tensor([0]), "masks": mask}
    prediction, quality = side | {"scores": torch.ones(1)}, MaskQuality(num_classes=1)
    with ThreadCounts() as counts:
        quality.update([prediction], [side]).compute()
    assert counts.seen == {1}
    assert torch.get_num_threads() == MANY


def test_setting_survives_an_error() -> None:
    metric: Any = DetectionAP("coco2017", num_classes=1)
    with pytest.raises(InputError):
        metric.update([{"boxes": torch.zeros(1, 4)}], [{}])
    assert torch.get_num_threads() == MANY
    assert torch.is_grad_enabled()


class Waiting(TorchDispatchMode):
    """Stays inside the first operation until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go_on = threading.Event(), threading.Event()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.inside.set()
        assert self.go_on.wait(20)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("fails", [False, True])
def test_threads_do_not_see_each_other(fails: bool) -> None:
    """Also a thread that uses torch for the first time while another is inside a call."""
    waiting = Waiting()

    def update() -> tuple[int, int]:
        boxes = torch.full((1, 4), torch.nan if fails else 1.0)
        rows = {"boxes": boxes, "labels": torch.tensor([0])}
        prediction = rows | {"scores": torch.ones(1)}  # made before, so that the call waits
        metric: Any = DetectionAP("voc2007", num_classes=1)
        before = torch.get_num_threads()
        with waiting, pytest.raises(InputError) if fails else nullcontext():
            metric.update([prediction], [rows]).compute()
        return before, torch.get_num_threads()

    with ThreadPoolExecutor() as pool:
        slow = pool.submit(update)
        assert waiting.inside.wait(20)
        try:
            quick = pool.submit(torch.get_num_threads).result()
            here = torch.get_num_threads()
        finally:
            waiting.go_on.set()
        assert slow.result() == (MANY, MANY)
        assert (quick, here) == (MANY, MANY)
        assert pool.submit(torch.get_num_threads).result() == MANY


def test_two_threads_at_once() -> None:
    rows = {"boxes": torch.tensor([[0.0, 0, 4, 4]]), "labels": torch.tensor([0])}

    together = threading.Barrier(2, timeout=20)

    def work(threads: int) -> set[int]:
        torch.get_num_threads()  # torch takes the default of new threads here, whatever was set
        together.wait()
        torch.set_num_threads(threads)
        seen = set()
        for call in range(20):
            metric: Any = DetectionAP("voc2007", num_classes=1)
            metric.update([rows | {"scores": torch.ones(1)}], [rows]).compute()
            seen.add(torch.get_num_threads())
            with pytest.raises(InputError):
                metric.update([{"boxes": call}], [rows])
            seen.add(torch.get_num_threads())
        return seen

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, (2, 4))) == [{2}, {4}]


def test_without_openmp_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_openmp_setter", lambda: None)
    with module.host_work():
        assert torch.get_num_threads() == MANY


def test_settings_are_as_before_after_ctrl_c_while_they_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = []

    def interrupted(number: int) -> None:
        numbers.append(number)
        if number == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "_openmp_setter", lambda: interrupted)
    with pytest.raises(KeyboardInterrupt), module.host_work():
        pass
    assert numbers == [1, MANY]
    assert torch.is_grad_enabled()
