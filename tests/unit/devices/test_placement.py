"""Where tensors are put, and when they are read: faults that only cards would show."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from helpers.fake_cuda import fake_cuda
from helpers.host_backed_cuda import DeviceTensor, host_backed_cuda, moved
from torch import Tensor

from torch_vocmetrics import ClassificationAP, DetectionAP, LayoutAP, MeanIoU
from torch_vocmetrics.distributed import transport
from torch_vocmetrics.kernels import support
from torch_vocmetrics.transfer import to_device, to_host, work_device

K = 3


def rows(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Predictions and targets of three images, with ids and sizes."""
    rng = torch.Generator().manual_seed(seed)
    predictions, targets = [], []
    for image in range(3):
        corner = torch.randint(0, 60, (4, 2), generator=rng).float()
        size = torch.randint(8, 40, (4, 2), generator=rng).float()
        boxes = torch.cat([corner, corner + size], dim=1)
        labels = torch.randint(0, K, (4,), generator=rng)
        scores = torch.rand(4, generator=rng)
        predictions.append({"boxes": boxes.roll(image, 0), "scores": scores, "labels": labels})
        known = torch.tensor(10 * seed + image)
        targets.append({"boxes": boxes, "labels": labels, "image_id": known})
        targets[-1]["image_size"] = torch.tensor([100, 120])
    return predictions, targets


def computed(metric: Any) -> dict[str, str]:
    """All digits of a result; NaN equals itself as text."""
    return {name: repr(value) for name, value in metric.compute().to_dict().items()}


# Copies -------------------------------------------------------------------------------------------


def test_staging_is_host_memory_whatever_the_default_device() -> None:
    with fake_cuda() as guard, torch.device("cuda"):
        ones = torch.ones(3, dtype=torch.float64, device="cpu")
        flags = torch.ones(2, dtype=torch.bool, device="cpu")
        placed = to_device([flags, ones], torch.device("cuda"))
        assert [str(one.device) for one in placed] == ["cuda:0", "cuda:0"]
        assert guard.copies == 1


def test_sizes_in_pairs_are_read_under_any_default_device() -> None:
    predictions, targets = rows(0)
    with host_backed_cuda() as counts:
        for one in targets:
            one["image_size"] = (torch.tensor(100, device="cuda"), 120)
        counts.reset()
        with torch.device("cuda"):
            DetectionAP("coco2017", num_classes=K).update(moved(predictions), targets)
        assert counts.waits == []


def test_columns_of_a_device_are_read_by_one_wait() -> None:
    columns = [
        torch.tensor([True, False, True]),
        torch.tensor(7),
        torch.zeros((0, 4)),
        torch.tensor([[1.5, 2.5]], dtype=torch.float64),
        torch.tensor([3, 4], dtype=torch.int32),
    ]
    with host_backed_cuda() as counts:
        there = [column.to("cuda") for column in columns]
        counts.reset()
        read = to_host([*there, columns[0]])
        assert len(counts.waits) == 1
    assert all(torch.equal(one, other) for one, other in zip(read, columns, strict=False))
    assert [one.dtype for one in read[:-1]] == [one.dtype for one in columns]
    assert read[-1] is columns[0]


# Devices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mps", "xpu", "hpu"])
def test_other_devices_go_to_the_host_before_anything_is_made_of_them(kind: str) -> None:
    """No float64 is made there, and no operator is called."""
    assert work_device(torch.device(kind)) == torch.device("cpu")
    predictions, targets = rows(1)
    metric = DetectionAP("coco2017", num_classes=K)
    maps = torch.randint(0, K, (2, 8, 9))
    classes = ClassificationAP("voc2012", num_classes=K)
    scores, signs = torch.rand(4, K), torch.tensor([[1, -1, 1]] * 3 + [[-1, 1, -1]])
    with host_backed_cuda(kind) as counts:
        metric.update(moved(predictions, kind), moved(targets, kind))
        pixels = MeanIoU("voc2012", num_classes=K).update(moved(maps, kind), moved(maps, kind))
        classes.update(moved(scores, kind), moved(signs, kind))
        results = [computed(one) for one in (metric, pixels, classes)]
        packed = {"boxes": torch.rand(4, 4) + 1, "labels": torch.zeros(4).long(), "counts": [4]}
        other = DetectionAP("coco2017", num_classes=K, box_format="xywh").update(
            moved({**packed, "scores": torch.rand(4)}, kind), moved(packed, kind)
        )
        assert {"aten.cat", "aten.isfinite", "aten.argmax"} & counts.operators.keys() <= {
            "aten.cat"
        }
    assert {one._accumulated.device for one in (metric, pixels, classes, other)} == {
        torch.device("cpu")
    }
    wanted = DetectionAP("coco2017", num_classes=K).update(predictions, targets)
    assert results[0] == computed(wanted)
    assert results[1]["mIoU"] == "1.0"


@pytest.mark.parametrize(
    "homes",
    [("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")],
)
@pytest.mark.parametrize("packed", [False, True])
def test_columns_of_one_side_on_two_devices(homes: tuple[str, str], packed: bool) -> None:
    """They are brought to the device of the boxes, and the result is that of the host."""
    predictions, targets = rows(2)
    wanted = computed(DetectionAP("coco2017", num_classes=K).update(predictions, targets))
    if packed:
        predictions, targets = (_packed(side) for side in (predictions, targets))
    with host_backed_cuda():
        metric = DetectionAP("coco2017", num_classes=K)
        metric.update(_apart(predictions, homes), _apart(targets, homes))
        assert metric._accumulated.device == torch.device(homes[0])
        assert computed(metric) == wanted


def _packed(images: list[dict[str, Any]]) -> dict[str, Any]:
    whole: dict[str, Any] = {"counts": [len(one["labels"]) for one in images]}
    for key in images[0]:
        values = [one[key] for one in images]
        whole[key] = torch.stack(values) if key.startswith("image") else torch.cat(values)
    return whole


def _apart(side: Any, homes: tuple[str, str]) -> Any:
    """Boxes on the first device, everything else on the second."""
    if isinstance(side, list):
        return [_apart(one, homes) for one in side]
    return {
        key: moved(value, homes[key != "boxes"]) if key != "counts" else value
        for key, value in side.items()
    }


# Ids and sizes ------------------------------------------------------------------------------------


def test_ids_of_label_maps_on_a_device_are_copies_and_read_together() -> None:
    maps = torch.randint(0, K, (2, 8, 9))
    with host_backed_cuda() as counts:
        there, ids = moved(maps), torch.tensor([5, 6]).to("cuda")
        metric = MeanIoU("voc2012", num_classes=K)
        for step in range(4):
            metric.update(there, there, ids + 2 * step)
        metric.update(there, there, ids)
        ids.zero_()
        assert all(type(one.dense) is DeviceTensor for one in metric._accumulated.pending)
        counts.reset()
        with pytest.warns(UserWarning, match="2 repeated images were dropped"):
            result = metric.compute()
        reads = [wait for wait in counts.waits if "transfer.py" in wait]
        assert len(reads) == 2, "one wait for all ids, one for all faults"
    assert result.num_images == 8


def test_ids_and_sizes_of_detection_are_copies_and_read_together() -> None:
    with host_backed_cuda() as counts:
        metric = DetectionAP("coco2017", num_classes=K)
        for seed in range(5):
            predictions, targets = moved(rows(seed))
            counts.reset()
            metric.update(predictions, targets)
            assert counts.waits == []
            for one in targets:
                one["image_id"].zero_()
                one["image_size"].zero_()
        counts.reset()
        state = metric.state_dict()
        reads = [wait for wait in counts.waits if "transfer.py" in wait]
        assert len(reads) == 3, "what was checked, the ids, the sizes of the tables"
    assert state["image_ids"] == [10 * seed + image for seed in range(5) for image in range(3)]


@pytest.mark.parametrize("pairs", [False, True])
def test_ids_of_scores_on_a_device_do_not_make_update_wait(pairs: bool) -> None:
    scores, signs = torch.rand(4, K), torch.tensor([[1, -1, 1]] * 3 + [[-1, 1, -1]])
    with host_backed_cuda() as counts:
        ids = torch.arange(4).to("cuda")
        given = [(one, 3) for one in ids] if pairs else ids
        counts.reset()
        metric = ClassificationAP("action/voc2012", num_classes=K)
        metric.update(moved(scores), moved(signs), given)
        assert counts.waits == []
        state = metric.state_dict()
    assert [*state["image_ids"]] == ([(i, 3) for i in range(4)] if pairs else [0, 1, 2, 3])


def test_layouts_are_read_by_one_wait() -> None:
    part = {"part_boxes": torch.tensor([[30.0, 1, 60, 40]]), "part_labels": torch.tensor([0])}
    part["part_counts"] = torch.tensor([1])
    layout = part | {"object_index": torch.tensor([1]), "scores": torch.tensor([0.9])}
    person = part | {"object_index": torch.tensor([1])}
    with host_backed_cuda() as counts:
        metric = LayoutAP("voc2012")
        counts.reset()
        for _ in range(3):
            metric.update(moved([layout]), [person])
        assert counts.waits == []
        assert computed(metric)["AP/head"] == "1.0"


# Ranks --------------------------------------------------------------------------------------------


@pytest.fixture
def nccl(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that could use four cards under NCCL and has set no device."""
    monkeypatch.setattr(dist, "get_backend_config", lambda group=None: "cuda:nccl")
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_group", object)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return monkeypatch


def test_bytes_go_over_the_device_of_the_metric(nccl: pytest.MonkeyPatch) -> None:
    own = torch.device("cuda", 1)
    assert transport.transport_device(None, own) == own
    nccl.setenv("LOCAL_RANK", "2")
    assert transport.transport_device(None, own) == own
    assert transport.transport_device(None, torch.device("cpu")) == torch.device("cuda", 2)


def test_an_empty_rank_takes_the_device_of_its_launcher(nccl: pytest.MonkeyPatch) -> None:
    assert transport.transport_device(None, None) == torch.device("cuda", 0)
    nccl.setenv("LOCAL_RANK", "3")
    assert transport.transport_device(None, None) == torch.device("cuda", 3)
    nccl.setenv("LOCAL_RANK", "4")  # each process sees its own card only
    assert transport.transport_device(None, None) == torch.device("cuda", 0)
    nccl.setattr(torch.cuda, "current_device", lambda: 2)
    nccl.setenv("LOCAL_RANK", "1")
    assert transport.transport_device(None, None) == torch.device("cuda", 2)


def test_a_group_is_asked_for_its_own_device_first(nccl: pytest.MonkeyPatch) -> None:
    class Group:
        bound_device_id = torch.device("cuda", 3)

    nccl.setattr(dist.distributed_c10d, "_get_default_group", Group)
    assert transport.transport_device(None, torch.device("cuda", 1)) == Group.bound_device_id


def test_compute_hands_over_the_device_of_the_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def sync(state: Any, identity: Any, **options: Any) -> list[Any]:
        seen.append(options["device"])
        return [state]

    from torch_vocmetrics.metrics import base  # noqa: PLC0415

    monkeypatch.setattr(base, "sync", sync)
    with host_backed_cuda():
        metric = MeanIoU("voc2012", num_classes=K)
        maps = torch.zeros((1, 4, 4), dtype=torch.int64).to("cuda:1")
        metric.update(maps, maps)._synced(None, None, None)
    assert seen == [torch.device("cuda", 1)]


# Triton -------------------------------------------------------------------------------------------


class Launches:
    """Stands for the probe kernel; notes the current device at each launch."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.calls = error, 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(_: Any) -> None:
            self.calls += 1
            if self.error is not None:
                raise self.error

        return launch


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A card, as far as anybody asks."""
    pytest.importorskip("triton", reason="Triton is not to be had on this platform")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device", lambda device: _Nothing())
    support._launches.cache_clear()
    yield monkeypatch
    support._launches.cache_clear()


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Failed to find C compiler"),  # CC=/nonexistent
        PermissionError("[Errno 13] Permission denied: '/root/.triton'"),  # an unwritable cache
        ImportError("libcuda.so.1"),
        ValueError("type fp8e4nv not supported in this architecture"),
    ],
)
def test_triton_that_cannot_launch_is_tried_once_a_device(
    card: pytest.MonkeyPatch, error: Exception
) -> None:
    from torch_vocmetrics.kernels import probe  # noqa: PLC0415

    kernel = Launches(error)
    card.setattr(probe, "probe", kernel)
    first, second = torch.device("cuda", 0), torch.device("cuda", 1)
    with pytest.warns(UserWarning, match=f"Triton cannot run on cuda:0.*{type(error).__name__}"):
        assert not support.triton_works(first)
    assert not support.triton_works(first)  # a warning here would be an error
    assert kernel.calls == 1
    kernel.error = None
    assert support.triton_works(second)
    assert support.triton_works(second)
    assert kernel.calls == 2


def test_hidden_triton(card: pytest.MonkeyPatch) -> None:
    card.setattr(support.importlib.util, "find_spec", lambda name: None)
    assert not support.triton_works(torch.device("cuda", 0))


def test_launches_are_made_on_the_device_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: entered.append(device) or _Nothing())
    with host_backed_cuda():
        there = torch.zeros(1).to("cuda:1")
    with support.current(there), support.current(Tensor()):
        assert entered == [torch.device("cuda", 1)]
