"""Pixels of each pair of true and predicted class in each image, and of each kind of fault.

``torch_vocmetrics::tally_maps`` is one operator from label maps or logits to counts: on the host by
bytes, on CUDA by one kernel, or by plain operations where Triton does not work.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels.operators import operator
from ..kernels.support import triton_works
from .confusion import BYTES, PIXELS_AT_ONCE, LabelTable, count_pairs

NUM_FAULTS = 3
"""Columns behind the cells: unknown predicted labels, unknown true labels, NaN logits."""


def tally(prediction: Tensor, truth: Tensor, columns: LabelTable, rows: LabelTable) -> Tensor:
    """Count the pixels of images; waits for no device.

    Args:
        prediction: [n, H, W] integers, or [n, K, H, W] floating point of which the largest channel
            counts, the first among equals.
        truth: [n, H, W] integers.
        columns, rows: K classes as indices 0 .. K - 1 of predicted and of true labels, void as K,
            unknown ones as K + 1. Channels need no table.

    Returns:
        [n, K * (K + 1) + 3] int64: pixels by true and predicted class, without void ones, the last
        column for void predictions; then pixels of each kind of fault, above 0 where there is one.
    """
    # On the host without the dispatcher, which takes a twentieth of the time of a small batch.
    plain = prediction.is_cpu and type(prediction) is Tensor
    counts: Tensor = (_on_host if plain else _tally)(
        prediction,
        truth,
        columns.indices,
        rows.indices,
        columns.lowest - 1,
        rows.lowest - 1,
        rows.size - 2,
    )
    return counts


def by_cell(counts: Tensor) -> Tensor:
    """[n, K * (K + 1)] of what :func:`tally` gives, without faults."""
    return counts[:, :-NUM_FAULTS]


def faults(counts: Tensor) -> Tensor:
    """[n, 3] bool of the same: which kinds of fault each image has."""
    return counts[:, -NUM_FAULTS:] > 0


def _on_host(
    prediction: Tensor,
    truth: Tensor,
    table: Tensor,
    truth_table: Tensor,
    lowest: int,
    truth_lowest: int,
    num_classes: int,
) -> Tensor:
    """By plain operations, on any device, so many pixels at once as bound the memory."""
    rows = LabelTable(truth_lowest + 1, truth_table, num_classes + 2)
    columns = LabelTable(lowest + 1, table, num_classes + 2)
    pieces = max(PIXELS_AT_ONCE // max(truth[:1].numel(), 1), 1)
    if truth.shape[0] <= pieces:
        return _tally_piece(prediction, truth, columns, rows)
    parts = zip(torch.split(prediction, pieces), torch.split(truth, pieces), strict=True)
    return torch.cat([_tally_piece(found, true, columns, rows) for found, true in parts])


def _tally_piece(
    prediction: Tensor, truth: Tensor, columns: LabelTable, rows: LabelTable
) -> Tensor:
    K, nan = rows.size - 2, None
    if prediction.is_floating_point():
        prediction, nan = _labels_of(prediction)
        columns = _channels(K, truth.device)
    pairs = count_pairs(truth, prediction, rows, columns)
    counts = pairs.new_zeros((pairs.shape[0], K * (K + 1) + NUM_FAULTS))
    by_cell(counts).view(-1, K, K + 1).copy_(pairs[:, :K, : K + 1])
    torch.sum(pairs[:, :, K + 1], 1, out=counts[:, -3])
    torch.sum(pairs[:, K + 1], 1, out=counts[:, -2])
    if nan is not None:
        counts[:, -1].copy_(nan)
    return counts


def _channels(num_classes: int, device: torch.device) -> LabelTable:
    """The table of channels, which are indices themselves."""
    indices = torch.arange(-1, num_classes + 1, device=device)
    return LabelTable(0, indices.clamp_(min=0), num_classes + 2)


def _labels_of(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Channel of the largest logit, the first among equals, and [n] whether an image has a NaN."""
    if logits.device.type == "cpu" and 0 < logits.shape[1] <= BYTES:
        return _labels_on_host(logits)
    channel = logits.argmax(1, keepdim=True)
    nan = logits.gather(1, channel).isnan().flatten(1).any(1)  # NaN is the largest of all
    return channel.squeeze(1), nan


def _labels_on_host(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The same, channel after channel of one image: many times as fast as ``argmax`` (measured)."""
    count, K, height, width = logits.shape
    labels = torch.zeros((count, height, width), dtype=torch.uint8, device=logits.device)
    nan = torch.zeros(count, dtype=torch.bool, device=logits.device)
    for image, channels in enumerate(logits):
        largest = channels[0].clone()
        better = torch.empty_like(largest, dtype=torch.bool)
        for k in range(1, K):
            torch.gt(channels[k], largest, out=better)
            labels[image].masked_fill_(better, k)
            torch.maximum(largest, channels[k], out=largest)  # NaN stays
        nan[image] = largest.isnan().any()
    return labels, nan


def _on_cuda(prediction: Tensor, *others: object) -> Tensor:
    if not triton_works(prediction.device):
        return _on_host(prediction, *others)  # type: ignore[arg-type]
    from ..kernels.confusion import tally as launched  # noqa: PLC0415

    return launched(prediction, *others)  # type: ignore[arg-type]


def _shapes(_: Tensor, truth: Tensor, *others: object) -> Tensor:
    num_classes = int(others[-1])  # type: ignore[call-overload]
    cells = num_classes * (num_classes + 1) + NUM_FAULTS
    return truth.new_empty((truth.shape[0], cells), dtype=torch.int64)


_tally = operator(
    "tally_maps(Tensor prediction, Tensor truth, Tensor table, Tensor truth_table, int lowest, "
    "int truth_lowest, int num_classes) -> Tensor",
    cpu=_on_host,
    cuda=_on_cuda,
    fake=_shapes,
)
