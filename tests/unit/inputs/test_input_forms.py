"""Every form of input: the same numbers on the CPU, no waiting on a (fake) CUDA device."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from helpers.fake_cuda import WaitError, fake_cuda

from torch_vocmetrics import DetectionAP, InputError, VocMetricsWarning
from torch_vocmetrics.inputs.faults import Suspect
from torch_vocmetrics.metrics import record_state, recorded
from torch_vocmetrics.tables.records import MatchRecords

Images = tuple[Any, Any]


def scenes(count: int = 6) -> tuple[list[Any], list[Any]]:
    """Images of whole pixels, 4 detections and up to 3 objects each."""
    rng = torch.Generator().manual_seed(3)

    def rows(n: int) -> dict[str, torch.Tensor]:
        corner = torch.randint(0, 40, (n, 2), generator=rng).float()
        size = torch.randint(8, 60, (n, 2), generator=rng)
        return {
            "boxes": torch.cat([corner, corner + size], 1),
            "labels": torch.randint(0, 2, (n,), generator=rng),
        }

    found = [
        rows(4) | {"scores": torch.randint(0, 99, (4,), generator=rng) / 128} for _ in range(count)
    ]
    true = [rows(i % 4) | {"iscrowd": torch.arange(i % 4) == 2} for i in range(count)]
    true = [r | {"image_id": 7 + i, "image_size": (99, 100)} for i, r in enumerate(true)]
    for image, rows_of in enumerate(found):  # some detections that match, some that can choose
        if true[image]["boxes"].shape[0]:
            rows_of["boxes"][:2] = true[image]["boxes"][0]
            rows_of["labels"][:2] = true[image]["labels"][0]
        if true[image]["boxes"].shape[0] > 1:
            true[image]["boxes"][1] = true[image]["boxes"][0] + 2
            true[image]["labels"][1] = true[image]["labels"][0]
    return found, true


def packed(images: list[Any]) -> dict[str, Any]:
    keys = [key for key in images[0] if key not in ("image_id", "image_size")]
    rows = {key: torch.cat([image[key] for image in images]) for key in keys}
    rows["counts"] = [image["boxes"].shape[0] for image in images]
    for key in ("image_id", "image_size"):
        if key in images[0]:
            rows[key] = [image[key] for image in images]
    return rows


def dense(images: list[Any]) -> dict[str, Any]:
    return {key: torch.stack([image[key] for image in images]) for key in images[0]}


def each(images: list[Any], change: Callable[[str, Any], Any]) -> list[Any]:
    return [{key: change(key, value) for key, value in rows.items()} for rows in images]


def of_type(dtype: torch.dtype) -> Callable[[Images], Images]:
    def change(key: str, value: Any) -> Any:
        return value.to(dtype) if key in ("boxes", "scores") else value

    return lambda images: (each(images[0], change), each(images[1], change))


def with_ids(make: Callable[[int], Any]) -> Callable[[Images], Images]:
    def change(key: str, value: Any) -> Any:
        return make(value) if key == "image_id" else value

    return lambda images: (images[0], each(images[1], change))


FORMS: dict[str, Callable[[Images], Images]] = {
    "lists of dicts": lambda images: images,
    "packed": lambda images: (packed(images[0]), packed(images[1])),
    "dense": lambda images: (dense(images[0]), images[1]),
    "float64": of_type(torch.float64),
    "float16": of_type(torch.float16),
    "bfloat16 boxes": lambda images: (
        each(images[0], lambda k, v: v.bfloat16() if k == "boxes" else v),
        images[1],
    ),
    "integer boxes": lambda images: (
        each(images[0], lambda k, v: v.int() if k == "boxes" else v),
        each(images[1], lambda k, v: v.long() if k == "boxes" else v),
    ),
    "ids as text": with_ids(lambda i: f"{i:03d}"),
    "ids as 0-d tensors": with_ids(lambda i: torch.tensor(i, device="cpu")),
    "ids as [1] tensors": with_ids(lambda i: torch.tensor([i], device="cpu")),
    "no ids": lambda images: (
        images[0],
        [{k: v for k, v in rows.items() if k != "image_id"} for rows in images[1]],
    ),
    "labels as floats": lambda images: (
        each(images[0], lambda k, v: v.float() if k == "labels" else v),
        each(images[1], lambda k, v: v.half() if k == "labels" else v),
    ),
    "int32 labels, uint8 flags": lambda images: (
        each(images[0], lambda k, v: v.int() if k == "labels" else v),
        each(images[1], lambda k, v: v.to(torch.uint8) if k == "iscrowd" else v),
    ),
}
HOST_FORMS: dict[str, Callable[[Images], Images]] = {
    "packed, counts as a tensor": lambda images: (
        packed(images[0]) | {"counts": torch.tensor(packed(images[0])["counts"], device="cpu")},
        images[1],
    ),
    "numpy": lambda images: tuple(
        each(side, lambda _, v: v.numpy() if isinstance(v, torch.Tensor) else v) for side in images
    ),
    "read-only numpy": lambda images: tuple(
        each(side, lambda _, v: frozen(v) if isinstance(v, torch.Tensor) else v) for side in images
    ),
    "lists of numbers": lambda images: tuple(
        each(side, lambda _, v: v.tolist() if isinstance(v, torch.Tensor) else v) for side in images
    ),
    "dlpack": lambda images: tuple(
        each(side, lambda _, v: Speaks(v) if isinstance(v, torch.Tensor) else v) for side in images
    ),
}


def frozen(values: torch.Tensor) -> np.ndarray:
    array = values.numpy().copy()
    array.flags.writeable = False
    return array


class Speaks:
    """Something of another framework that shares its memory by DLPack."""

    def __init__(self, values: torch.Tensor) -> None:
        # DLPack knows bool in new versions only; frameworks send bytes.
        self._values = values.to(torch.uint8) if values.dtype == torch.bool else values

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


def new(**options: Any) -> Any:
    return DetectionAP(["voc2007", "coco2017"], num_classes=2, **options)


def numbers(metric: Any) -> list[str]:
    return [str(result.to_dict()) for result in metric.compute().values()]


@pytest.mark.parametrize("name", [*FORMS, *HOST_FORMS])
def test_all_forms_give_the_same(name: str) -> None:
    wanted = numbers(new().update(*scenes()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = numbers(new().update(*(FORMS | HOST_FORMS)[name](scenes())))
    assert got == wanted
    assert "nan" not in wanted[0]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("targets_on", ["cuda", "cpu"])
def test_update_waits_for_no_device(
    name: str, targets_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is on the host may be read at once, but fake tensors have no values there either.
    monkeypatch.setattr(recorded, "fault_on_host", lambda batch: None)
    monkeypatch.setattr(recorded, "warn_of_coarse_boxes", lambda flags: None)
    with fake_cuda() as guard:
        found, true = FORMS[name](scenes())
        found, true = on(found, "cuda"), on(true, targets_on)
        guard.copies = guard.calls = 0
        metric = new(label_ids=[1, 0])
        metric.update(found, true)
        assert guard.copies <= (1 if targets_on == "cpu" else 0) + 2  # label ids, once a side
        assert guard.calls < 400
        assert metric._accumulated.pending[0].detections.boxes.device.type == "cuda"
        assert metric._accumulated.pending[0].ground_truths.area.device.type == "cuda"
        metric.update(found, true)


def on(images: Any, device: str) -> Any:
    """The tensors of a batch on a device; sizes and host counts stay."""
    if device == "cpu":
        return images
    if isinstance(images, dict):
        return {k: moved(k, v) for k, v in images.items()}
    return [{k: moved(k, v) for k, v in rows.items()} for rows in images]


def moved(key: str, value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or key == "counts":
        return value
    return torch.empty(value.shape, dtype=value.dtype, device="cuda")


def test_mixed_devices_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "fault_on_host", lambda batch: None)
    with fake_cuda() as guard:
        found, true = scenes()
        found = [on([rows], "cuda")[0] if i % 2 else rows for i, rows in enumerate(found)]
        found = [on(found[:1], "cuda")[0], *found[1:]]
        metric = new().update(found, true)
        assert metric._accumulated.pending[0].detections.scores.device.type == "cuda"
        assert guard.copies <= 4  # the host's boxes, scores and labels, and the targets


def test_wrong_targets_on_the_host_are_told_at_once() -> None:
    with fake_cuda():
        found, true = scenes()
        metric = new()
        true[1]["boxes"] = torch.empty(1, 3)
        with pytest.raises(InputError, match="target 1, key 'boxes'"):
            metric.update(on(found, "cuda"), true)
        assert not metric._accumulated.pending


@pytest.mark.parametrize("plant", ["item", "boolean index", "cpu", "no device"])
def test_a_planted_wait_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: whatever waits inside ``update`` raises."""

    def planted(*args: Any, **kwargs: Any) -> Any:
        batch = original(*args, **kwargs)
        boxes = batch.detections.boxes
        {
            "item": lambda: boxes.sum().item(),
            "boolean index": lambda: boxes[boxes > 0],
            "cpu": boxes.cpu,
            "no device": lambda: boxes + torch.zeros(boxes.shape),
        }[plant]()
        return batch

    original = recorded.pack
    monkeypatch.setattr(recorded, "pack", planted)
    with fake_cuda():
        found, true = scenes()
        with pytest.raises((WaitError, RuntimeError)):
            new().update(on(found, "cuda"), true)


def test_values_on_a_device_are_told_by_compute_until_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deferred checks, with a CPU that passes for a device that must not be waited for."""
    monkeypatch.setattr(recorded, "fault_on_host", lambda batch: None)
    monkeypatch.setattr(recorded, "suspects_on_device", suspects)
    metric = new().update(*scenes(3))
    found, true = scenes(2)
    found[1]["scores"][2] = float("nan")
    metric.update(found, [r | {"image_id": 50 + i} for i, r in enumerate(true)])
    metric.update(*([rows] for rows in ({**scenes()[0][5]}, scenes()[1][5])))
    for _ in range(2):
        with pytest.raises(InputError, match=r"prediction 4 \(image_id 51\), row 2: the score"):
            metric.compute()
    with pytest.raises(InputError, match="the score is NaN"):
        metric.state_dict()
    metric.reset().update(*scenes(3))
    assert metric.compute()["voc2007"].num_images == 3


def suspects(batch: Any, images_before: int) -> list[Suspect]:
    return [one._replace(images_before=images_before) for one in batch.suspects]


def test_a_flush_waits_for_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full chunk is matched by the kernel: no copy from the device, few to it."""
    pytest.importorskip("triton", reason="without Triton the host matches, at one wait a chunk")
    monkeypatch.setattr(recorded, "fault_on_host", lambda batch: None)
    monkeypatch.setattr(record_state, "CHUNK_ROWS", 30)
    with fake_cuda() as guard:
        found, true = scenes()
        metric = new().update(on(found, "cuda"), true)
        assert not metric._accumulated.pending
        records = MatchRecords.cat(metric._accumulated.tables[1])
        assert records.match_overlap.device.type == records.score.device.type == "cuda"
        assert records.match_true_positive.shape[1] == 1
        assert len(metric._accumulated.deferred.suspects) == 1
        assert guard.copies < 30


def test_bounding_boxes_say_their_own_format() -> None:
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    found, true = scenes()

    def wrap(boxes: torch.Tensor) -> Any:
        corner, size = boxes[:, :2], boxes[:, 2:] - boxes[:, :2]
        return tv_tensors.BoundingBoxes(
            torch.cat([corner, size], 1), format="XYWH", canvas_size=(99, 100)
        )

    wrapped = [rows | {"boxes": wrap(rows["boxes"])} for rows in true]
    assert numbers(new().update(found, wrapped)) == numbers(new().update(found, true))
    half = new().update(found[:3], true[:3]).update(found[3:], wrapped[3:])
    assert numbers(half) == numbers(new().update(found, true))
    mixed = [*wrapped[:3], *true[3:]]
    mixed[1] = true[1]
    with pytest.raises(InputError, match="boxes of one batch must share one format"):
        new().update(found, mixed)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float16, 2048), (torch.bfloat16, 256)])
def test_half_boxes_beyond_whole_pixels_warn(dtype: torch.dtype, limit: int) -> None:
    for edge, warns in ((limit, False), (limit + limit // 8, True)):
        box = torch.tensor([[0.0, 0.0, edge, 8.0]]).to(dtype)
        rows = {"boxes": box, "labels": [0]}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            new().update([rows | {"scores": [0.5]}], [rows])
        assert [w.category for w in caught] == [VocMetricsWarning] * warns


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"counts": None}, "packed tensors, which need 'counts'; wrap a single image in a list"),
        ({"counts": [4] * 5}, "must add up to the boxes, got 20 rows in counts beside 24 boxes"),
        ({"counts": [28, -4]}, "must add up"),
        ({"counts": [1.5]}, "must be a list of integers"),
        ({"scores": torch.zeros(23)}, r"one entry per box, got shape \(23,\) beside boxes \(24,\)"),
        (
            {"boxes": torch.zeros(24, 5)},
            r"must have shape \[N, 4\] beside 'counts', or \[B, Q, 4\]",
        ),
    ],
)
def test_wrong_packed_input(change: dict[str, Any], sentence: str) -> None:
    found, true = scenes()
    rows = {key: value for key, value in (packed(found) | change).items() if value is not None}
    with pytest.raises(InputError, match=sentence):
        new().update(rows, true)
    with pytest.raises(InputError, match="one entry per image each, got 6 and 5"):
        new().update(packed(found), true[:5])
    with pytest.raises(InputError, match="'image_id': must have one entry per image, got 1"):
        new().update(found, packed(true) | {"image_id": [1]})


def test_counts_on_a_device_would_wait() -> None:
    with fake_cuda():
        found = packed(scenes()[0])
        found["counts"] = torch.empty(6, dtype=torch.int64, device="cuda")
        with pytest.raises(InputError, match="must be on the host"):
            new().update(on(found, "cuda") | {"counts": found["counts"]}, scenes()[1])


@pytest.mark.parametrize("name", [*FORMS, *HOST_FORMS])
def test_no_factory_forgets_the_device(name: str) -> None:
    """Flush and compute with another default device: what forgets ``device=`` lands on it."""
    wanted = numbers(new().update(*scenes()))
    images = (FORMS | HOST_FORMS)[name](scenes())
    with torch.device("meta"):
        metric = new(label_ids=[0, 1]).update(*images)
        found, true = images
        if name != "no ids":
            metric.update(found, true)
            with pytest.warns(VocMetricsWarning, match="repeated images"):
                metric.compute()
        assert numbers(metric) == wanted if name == "no ids" else True
        again = new().load_state_dict(new().update(*images).state_dict())
        assert numbers(again.merge(new())) == wanted
