"""Which protocol, or which known deviation from one, gives a number that was read elsewhere.

The same predictions and targets are evaluated under several protocols, then with one deviation, and
then with two (see :mod:`.deviations`), until something gives the number to all its digits.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..errors import InputError, VocMetricsError, VocMetricsWarning
from ..metrics.detection import DetectionAP
from ..protocols import DetectionProtocol, load_protocol, protocol_title
from ..ragged import BOX_FORMATS
from ..results import CocoDetectionResult, DetectionResult
from .audit_result import Audit, Candidate, Reported, explanations
from .deviations import Deviation, Images, deviations

USUAL_PROTOCOLS = ("voc2007", "voc2012", "coco2017")

Progress = Callable[[int, int], object]


def audit(
    predictions: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    reported: str | float,
    *,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
    label_ids: Sequence[int] | None = None,
    box_format: str = "xyxy",
    protocols: Sequence[str | DetectionProtocol] = USUAL_PROTOCOLS,
    number: str | None = None,
    most_deviations: int = 2,
    progress: Progress | None = None,
) -> Audit:
    """Find the protocol or the known deviations that give a number which was read elsewhere.

    Args:
        predictions, targets: per image a dict, as :class:`~torch_vocmetrics.DetectionAP` takes it.
        reported: the number, best as a string with all its digits; above 1 it is percent.
        class_names, num_classes, label_ids, box_format: as for :class:`DetectionAP`.
        protocols: to begin with.
        number: its name in ``to_dict``, such as ``"AP75"`` or ``"AP/cat"``; None compares the
            headline, and AP50 of COCO's protocols.
        most_deviations: 0, 1 or 2 at a time. Only deviations that change a number by themselves
            are tried in pairs.
        progress: called with the number of evaluations so far and their total in this step.

    Raises:
        InputError: if ``reported`` is no number, the images cannot be evaluated at all, or no
            protocol gives ``number``.
    """
    wanted = Reported.parse(reported)
    if most_deviations not in (0, 1, 2):
        raise InputError("must be 0, 1 or 2", where="most_deviations", got=most_deviations)
    if box_format not in BOX_FORMATS:
        known = ", ".join(BOX_FORMATS)
        raise InputError(f"must be one of {known}", where="box_format", got=repr(box_format))
    images = Images(_on_cpu(predictions), _on_cpu(targets), box_format)
    classes = {"class_names": class_names, "num_classes": num_classes, "label_ids": label_ids}
    rules = [load_protocol(one, DetectionProtocol) for one in protocols]
    search = _Search(images, rules, classes, number, wanted, progress)
    search.run(most_deviations)
    return search.audit()


def _on_cpu(images: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Columns of numbers as tensors on the CPU; masks and keys of images as they are."""
    kept = ("image_id", "image_size", "masks")
    return tuple(
        {k: v if k in kept else torch.as_tensor(v).cpu() for k, v in image.items()}
        for image in images
    )


Combination = tuple[Deviation, ...]


class _Search:
    """Evaluates protocols with more and more deviations."""

    def __init__(
        self,
        images: Images,
        protocols: Sequence[DetectionProtocol],
        classes: Mapping[str, Any],
        number: str | None,
        wanted: Reported,
        progress: Progress | None,
    ) -> None:
        self._images, self._protocols, self._classes = images, protocols, classes
        self._number, self._wanted, self._progress = number, wanted, progress
        self._found: list[Candidate] = []
        self._active: dict[str, list[Deviation]] = {}

    def run(self, most: int) -> None:
        """Try 0, 1, ... deviations until the number is explained."""
        known = deviations()
        self._try([()], strict=True)
        if not self._found:
            name = self._number or "headline"
            raise InputError("no protocol gives this number", where="number", got=repr(name))
        if most >= 1 and not self._explanations():
            self._try([(one,) for one in known])
        if most >= 2 and not self._explanations():
            self._find_active(known)
            pairs = itertools.combinations(known, 2)
            self._try([pair for pair in pairs if pair[0].family != pair[1].family])

    def audit(self) -> Audit:
        """What was found."""
        return Audit.of(self._wanted, self._found)

    def _explanations(self) -> tuple[Candidate, ...]:
        return explanations(self._wanted, self._found)

    def _find_active(self, known: Sequence[Deviation]) -> None:
        """For each protocol, the deviations that change a number by themselves."""
        plain = {(one.protocol, one.number): one.value for one in self._found if not one.deviations}
        changed = {
            (one.protocol, one.deviations[0])
            for one in self._found
            if len(one.deviations) == 1 and one.value != plain.get((one.protocol, one.number))
        }
        for protocol in self._protocols:
            title = protocol_title(protocol)
            self._active[title] = [one for one in known if (title, one.name) in changed]

    def _try(self, combinations: Sequence[Combination], *, strict: bool = False) -> None:
        """Evaluate combinations of deviations, those of the same images in one pass."""
        groups: dict[Combination, list[Combination]] = {}
        for combination in combinations:
            key = tuple(one for one in combination if one.images is not None)
            groups.setdefault(key, []).append(combination)
        for count, (changes, members) in enumerate(groups.items(), 1):
            images: Images | None = self._images
            for change in changes:
                if images is not None and change.images is not None:
                    images = change.images(images)
            if images is not None:
                self._evaluate(images, members, strict=strict)
            if self._progress is not None:
                self._progress(count, len(groups))

    def _evaluate(
        self, images: Images, combinations: Sequence[Combination], *, strict: bool
    ) -> None:
        cases: dict[DetectionProtocol, list[tuple[DetectionProtocol, Combination]]] = {}
        for protocol in self._protocols:
            active = self._active.get(protocol_title(protocol))
            for combination in combinations:
                if active is not None and any(one not in active for one in combination):
                    continue
                changed = _changed(protocol, combination)
                if changed is not None:
                    cases.setdefault(changed, []).append((protocol, combination))
        results = _results(list(cases), images, self._classes, strict=strict)
        for protocol, result in results:
            for original, combination in cases[protocol]:
                self._found += self._candidates(original, combination, result)

    def _candidates(
        self, protocol: DetectionProtocol, combination: Combination, result: DetectionResult
    ) -> Iterator[Candidate]:
        for name, value in self._numbers(combination, result):
            if not math.isnan(value):
                yield Candidate(
                    protocol=protocol_title(protocol),
                    deviations=tuple(one.name for one in combination),
                    number=name,
                    value=value,
                    digits=self._wanted.digits_of(value),
                )

    def _numbers(
        self, combination: Combination, result: DetectionResult
    ) -> Iterator[tuple[str, float]]:
        means = [one.mean for one in combination if one.mean is not None]
        headline = "AP" if isinstance(result, CocoDetectionResult) else "mAP"
        if means:
            if self._number in (None, headline):
                yield headline, means[0](result)
            return
        numbers = result.to_dict()
        wanted = (headline, "AP50") if self._number is None else (self._number,)
        yield from ((name, numbers[name]) for name in wanted if name in numbers)


def _changed(protocol: DetectionProtocol, combination: Combination) -> DetectionProtocol | None:
    """The protocol with the deviations of rules; None if one of them changes nothing."""
    changed = protocol
    for deviation in combination:
        if deviation.rules is None:
            continue
        before = changed
        try:
            changed = deviation.rules(before)
        except VocMetricsError:  # rules that do not go together with those of the protocol
            return None
        if changed == before:
            return None
    return changed


def _results(
    protocols: Sequence[DetectionProtocol],
    images: Images,
    classes: Mapping[str, Any],
    *,
    strict: bool,
) -> Iterable[tuple[DetectionProtocol, DetectionResult]]:
    """Results of the protocols that can evaluate the images; all of them in one pass if possible.

    ``strict`` raises if none can.
    """
    if not protocols:
        return []
    try:
        return _evaluated(protocols, images, classes)
    except VocMetricsError as error:
        if len(protocols) == 1:
            if strict:
                raise
            return []
        results = [
            pair for one in protocols for pair in _results([one], images, classes, strict=False)
        ]
        if strict and not results:
            raise error
        return results


def _evaluated(
    protocols: Sequence[DetectionProtocol], images: Images, classes: Mapping[str, Any]
) -> list[tuple[DetectionProtocol, DetectionResult]]:
    named = {f"{one.name} {row}": one for row, one in enumerate(protocols)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VocMetricsWarning)
        metric = DetectionAP(
            [replace(one, name=name) for name, one in named.items()],
            box_format=images.box_format,
            **classes,
        )
        results = metric.update(images.predictions, images.targets).compute(sync=False)
    return [(named[name], result) for name, result in results.items()]
