"""Headers, sentences and transport, in one process; real ranks are in tests/distributed."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_vocmetrics import distributed
from torch_vocmetrics.distributed import (
    HEADER_BYTES,
    _header_bytes,
    _ranks,
    _read_header,
    transport,
)
from torch_vocmetrics.errors import (
    InputError,
    StateError,
    VocMetricsWarning,
    warn,
    warnings_of_one_rank,
)

IDENTITY = {
    "schema": 1,
    "metric": "DetectionAP",
    "protocols": ["voc2007"],
    "fingerprints": ["0123456789abcdef"],
    "class_names": [f"class {number}" for number in range(1000)],
    "label_ids": list(range(1000)),
}
STATE = {"image_ids": [1, 2], "num_images": 2, "score": torch.ones(5)}


@pytest.mark.parametrize("message", ["short", "x" * 10_000, "\N{SNOWMAN}" * 1000, '"' * 5000])
def test_a_header_has_one_size(message: str) -> None:
    _, header = distributed._payload(StateError(message), IDENTITY)
    row = _header_bytes(header)
    assert row.shape == (HEADER_BYTES,)
    read = _read_header(row)
    assert message.startswith(read["message"])
    assert len(read["message"]) > (4 if message == "short" else 50)
    assert read["classes"][1].startswith("1000: class 0, class 1")


def test_names_too_long_for_a_header_fit() -> None:
    names = ["\N{SNOWMAN}" * 500] * 4
    identity = IDENTITY | {"class_names": names, "protocols": names[:1], "metric": "M"}
    _, header = distributed._payload(STATE, identity)
    assert _header_bytes(header).shape == (HEADER_BYTES,)


@pytest.mark.parametrize("row", [b"\0", b"{}", b'{"header": 7, "version": "9"}', b"[1, 2]"])
def test_another_header_is_a_sentence(row: bytes) -> None:
    letters = torch.frombuffer(bytearray(row.ljust(HEADER_BYTES)), dtype=torch.uint8)
    assert "are all ranks in compute()" in _read_header(letters)["message"]


def test_ranks_in_words() -> None:
    assert _ranks([3]) == "rank 3"
    assert _ranks([0, 1]) == "ranks 0, 1"
    assert _ranks([0, 2, 3, 4, 5, 9]) == "ranks 0, 2-5, 9"


# A process group by stand-ins ---------------------------------------------------------------------


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Headers and payloads of ranks 1, 2, ...; this process is rank 0."""
    sent: list[Any] = []

    def gather(rows: list[torch.Tensor], mine: torch.Tensor, group: object = None) -> None:
        rows[0].copy_(mine)
        for row, (header, run) in zip(rows[1:], sent, strict=True):
            given = _header_bytes(header) if mine.numel() == HEADER_BYTES else run
            row[: given.numel()] = given

    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 1 + len(sent))
    monkeypatch.setattr(dist, "get_backend_config", lambda group=None: "cpu:gloo,cuda:gloo")
    monkeypatch.setattr(dist, "all_gather", gather)
    return sent


def other(**changes: Any) -> tuple[dict[str, Any], torch.Tensor]:
    run, header = distributed._payload(STATE, IDENTITY)
    return header | changes, run


def test_states_of_all_ranks(others: list[Any]) -> None:
    others += [other(), other()]
    states = distributed.sync(STATE, IDENTITY)
    assert [state["image_ids"] for state in states] == [[1, 2]] * 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "9"}, "different versions of torch_vocmetrics, got .* on rank 0; 9 on rank 1"),
        ({"schema": 9}, "different schemas, got 1 on rank 0; 9 on rank 1"),
        ({"metric": "MeanIoU"}, "different metrics, got DetectionAP on rank 0; MeanIoU on rank 1"),
        ({"protocols": ["y", "voc2012"]}, "got voc2007 .01234567. on rank 0; voc2012 on rank 1"),
        ({"classes": ["y", "2: a, b"]}, "different classes, got 1000: class 0.*; 2: a, b on rank"),
        ({"labels": ["y", "2: 1, 2"]}, "different label ids, got 1000: 0, 1.*; 2: 1, 2 on rank 1"),
        ({"ids": "none"}, "different kinds of image ids, got int on rank 0; none on rank 1"),
    ],
)
def test_differences_are_named(others: list[Any], changes: Any, words: str) -> None:
    others.append(other(**changes))
    with pytest.raises(StateError, match=words):
        distributed.sync(STATE, IDENTITY)


def test_ranks_without_images_have_no_kind_of_ids(others: list[Any]) -> None:
    empty = {"image_ids": None, "num_images": 0, "score": torch.ones(0)}
    run, header = distributed._payload(empty, IDENTITY)
    others += [(header, run), other()]
    assert len(distributed.sync(STATE, IDENTITY)) == 3


def test_an_error_comes_before_a_difference(others: list[Any]) -> None:
    others.append(other(schema=9))
    with pytest.raises(InputError, match="rank 0: the score is not finite") as raised:
        distributed.sync(InputError("the score is not finite"), IDENTITY)
    assert isinstance(raised.value.__cause__, InputError)


# Devices ------------------------------------------------------------------------------------------


def backend(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    monkeypatch.setattr(dist, "get_backend_config", lambda group=None: config)


def test_bytes_stay_on_the_host_where_a_backend_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for config in ("cpu:gloo,cuda:gloo", "cpu:gloo,cuda:nccl", "cuda:nccl,cpu:gloo"):
        backend(monkeypatch, config)
        assert transport.transport_device(None, torch.device("cuda", 0)) == torch.device("cpu")


def test_under_nccl_bytes_go_over_the_current_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU state under NCCL, by a stand-in: fake CUDA memory and a gather that wants it."""
    backend(monkeypatch, "cuda:nccl")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_group", object)
    assert transport.transport_device(None, None) == torch.device("cuda", 3)
    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 2)
    seen = []

    def gather(rows: list[torch.Tensor], mine: torch.Tensor, group: object = None) -> None:
        seen.extend((str(one.device), one.numel()) for one in [*rows, mine])

    monkeypatch.setattr(dist, "all_gather", gather)
    with FakeTensorMode():
        row = torch.zeros(64, dtype=torch.uint8)
        rows = transport.all_gather(row, transport.Route(None, torch.device("cuda", 0)))
    assert seen == [("cuda:0", 64)] * 3
    assert (str(rows.device), rows.shape) == ("cpu", (2, 64))


class OnDevice(torch.Tensor):
    """Stands for a tensor on a device: it gives its numbers to the host on request only."""

    asked: ClassVar[list[str]] = []

    def detach(self) -> OnDevice:
        self.asked.append("detach")
        return self

    def cpu(self) -> torch.Tensor:
        self.asked.append("cpu")
        return self.as_subclass(torch.Tensor)

    def contiguous(self) -> torch.Tensor:
        pytest.fail("used on its device")


def test_state_of_a_device_becomes_bytes_on_the_host() -> None:
    column = torch.arange(5.0).as_subclass(OnDevice)
    run = distributed.to_bytes(STATE | {"score": column})
    assert OnDevice.asked == ["detach", "cpu"]
    assert distributed.from_bytes(run)["score"].tolist() == [0, 1, 2, 3, 4]


def test_one_rank_warns_for_all() -> None:
    """The others say nothing, but for their other threads."""
    with warnings_of_one_rank(False), warnings.catch_warnings():
        warnings.simplefilter("error")
        warn("of the result")
        with pytest.raises(VocMetricsWarning), ThreadPoolExecutor() as pool:
            pool.submit(warn, "of another metric").result()
    with warnings_of_one_rank(True), pytest.warns(VocMetricsWarning, match="of the result") as told:
        warn("of the result")
    assert told[0].filename == __file__
