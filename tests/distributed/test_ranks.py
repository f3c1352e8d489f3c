"""One to four gloo processes give one process's result, or all the same sentence."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from distributed import ranks as processes
from distributed.ranks import COUNT, PATIENCE, Outcome, padded_share, updated
from distributed.registry import SUBJECTS, images
from helpers.support import load_cases, same

from torch_vocmetrics.testing import differences, quietly

WORLDS = (1, 2, 3, 4)
TWO_COLLECTIVES = ["all_gather"] * 2


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What each rank of a world saw; a world is started when it is first asked for."""
    folder = tmp_path_factory.mktemp("ranks")
    return functools.cache(lambda world: processes.start(world, Path(folder, str(world))))


@functools.cache
def expected(name: str, *, ids: bool = True) -> Any:
    """What one process gives, in one batch."""
    subject = SUBJECTS[name]
    with quietly():
        return updated(subject.new, images(subject, COUNT, ids=ids), COUNT).compute()


def outcomes(found: Any, world: int, label: Any) -> list[Outcome]:
    return [rank[label] for rank in found(world)]


def check(given: list[Outcome], wanted: Any) -> None:
    for rank, one in enumerate(given):
        assert one.error is None, (rank, one.error)
        assert not list(differences(wanted, one.result)), rank


def check_error(given: list[Outcome], kind: str, *words: str) -> None:
    """All ranks raise one sentence, with these words in it."""
    assert len({one.error for one in given}) == 1
    assert given[0].error is not None
    assert given[0].error[0] == kind
    for word in words:
        assert word in given[0].error[1]


each_world = pytest.mark.parametrize("world", WORLDS)
each_larger_world = pytest.mark.parametrize("world", WORLDS[1:])
each_metric = pytest.mark.parametrize("name", SUBJECTS)


@each_world
@each_metric
def test_any_sharding_gives_the_bits_of_one_process(found: Any, world: int, name: str) -> None:
    for label in ("sampled", "twice", "blocks", "last only", "padded"):
        check(outcomes(found, world, (label, name)), expected(name))
    wanted = [] if world == 1 else TWO_COLLECTIVES
    for label in ("sampled", "blocks", "last only", "padded", "no ids", "dst"):
        assert all(one.collectives == wanted for one in outcomes(found, world, (label, name)))


@each_world
@each_metric
def test_without_ids_the_order_is_that_of_the_sampler(found: Any, world: int, name: str) -> None:
    given = outcomes(found, world, ("no ids", name))
    check(given, expected(name, ids=False))
    for rank, one in enumerate(given):
        told = [text for text in one.warnings if "copies are counted" in text]
        assert len(told) == (world > 1 and rank == 0)
        assert [text for text in one.warnings if "image_id" in text] == told


@each_world
@each_metric
def test_padding_counts_once_and_is_told_once(found: Any, world: int, name: str) -> None:
    copies = sum(len(padded_share(rank, world)) for rank in range(world)) - COUNT
    check(outcomes(found, world, ("padded noisily", name)), expected(name))
    for label, differing in (("padded", [0]), ("padded noisily", range(copies + 1))):
        for rank, one in enumerate(outcomes(found, world, (label, name))):
            told = [text for text in one.warnings if "repeated" in text]
            assert len(told) == (copies > 0 and rank == 0)
            if told:
                assert f"{copies} repeated images were dropped" in told[0]
                assert any(f" of {number} of them differed" in told[0] for number in differing)


def test_noise_is_noticed(found: Any) -> None:
    """Of all metrics some had a differing copy, so that the count is not always 0."""
    told = [
        text
        for name in SUBJECTS
        for text in outcomes(found, 4, ("padded noisily", name))[0].warnings
    ]
    assert sum(" of 0 of them" not in text for text in told if "repeated" in text) > 5


@each_world
@each_metric
def test_a_sync_leaves_the_state_alone(found: Any, world: int, name: str) -> None:
    for rank, one in enumerate(outcomes(found, world, ("state", name))):
        assert not list(differences(*one.result)), rank
    subject = SUBJECTS[name]
    for rank, one in enumerate(outcomes(found, world, ("alone", name))):
        assert one.collectives == []
        with quietly():
            own = updated(subject.new, images(subject, COUNT, ids=True)[rank::world], COUNT)
            check([one], own.compute())


@each_world
@each_metric
def test_dst_alone_gets_the_result(found: Any, world: int, name: str) -> None:
    *others, last = outcomes(found, world, ("dst", name))
    check([last], expected(name))
    assert [one[:2] for one in others] == [(None, None)] * (world - 1)


@each_metric
def test_an_epoch_goes_on_in_another_process(found: Any, name: str) -> None:
    check(outcomes(found, 1, ("resumed", name)), expected(name))


@each_world
@each_metric
def test_the_rank_that_gets_the_result_warns(found: Any, world: int, name: str) -> None:
    *others, last = outcomes(found, world, ("padded dst", name))
    copies = sum(len(padded_share(rank, world)) for rank in range(world)) - COUNT
    assert sum("repeated" in text for text in last.warnings) == bool(copies)
    assert [one.warnings for one in others] == [[]] * (world - 1)


@each_larger_world
@each_metric
def test_disagreeing_ranks_raise_the_same(found: Any, world: int, name: str) -> None:
    last = f"rank {world - 1}"
    given = outcomes(found, world, ("rules", name))
    check_error(given, "StateError", "the ranks hold states of different", f"on {last}")
    assert all(one.collectives == TWO_COLLECTIVES[:1] for one in given)
    check_error(
        outcomes(found, world, ("truth", name)), "StateError", "image_id", "reset() forgotten"
    )
    given = outcomes(found, world, ("ids", name))
    check_error(given, "StateError", "different kinds of image ids", f"none on {last}")


@each_larger_world
@each_metric
def test_a_late_value_error_is_everyones(found: Any, world: int, name: str) -> None:
    for label in ("late", "late again"):
        given = outcomes(found, world, (label, name))
        check_error(given, "InputError", f"rank {world - 1}: ")
        assert all(one.collectives == TWO_COLLECTIVES[:1] for one in given)
    check(outcomes(found, world, ("after reset", name)), expected(name))


BY_CLASS = [name for name in SUBJECTS if name.startswith("detection")]


@each_world
@each_metric
def test_by_class_gives_the_bits_of_one_process(found: Any, world: int, name: str) -> None:
    for label in ("sampled", "last only", "padded", "padded noisily"):
        given = outcomes(found, world, (f"class {label}", name))
        check(given, expected(name))
        gathered = outcomes(found, world, (label, name))
        assert [one.warnings for one in given] == [one.warnings for one in gathered], label
        to_owners = world > 1 and name in BY_CLASS
        assert all(("all_to_all_single" in one.collectives) == to_owners for one in given)
    given = outcomes(found, world, ("class automatic", name))
    check(given, expected(name))
    assert all(("all_to_all_single" in one.collectives) == to_owners for one in given)
    given = outcomes(found, world, ("class no ids", name))
    check(given, expected(name, ids=False))
    without = outcomes(found, world, ("no ids", name))
    assert [one.warnings for one in given] == [one.warnings for one in without]
    *others, last = outcomes(found, world, ("class dst", name))
    check([last], expected(name))
    assert [one[:2] for one in others] == [(None, None)] * (world - 1)


@each_larger_world
@each_metric
def test_by_class_all_ranks_raise_the_same(found: Any, world: int, name: str) -> None:
    last = f"rank {world - 1}"
    for label in ("truth", "ids", "late"):
        given = outcomes(found, world, (f"class {label}", name))
        gathered = outcomes(found, world, (label, name))
        assert [one.error for one in given] == [one.error for one in gathered], label
        assert given[0].error is not None
    given = outcomes(found, world, ("class mixed", name))
    check_error(given, "StateError", "different values of shard_by", f"none on {last}")
    check_error(outcomes(found, world, ("class unknown", name)), "InputError", "shard_by")


@each_larger_world
def test_versions_and_unforeseen_errors(found: Any, world: int) -> None:
    last = world - 1
    given = outcomes(found, world, "version")
    check_error(given, "StateError", "versions of torch_vocmetrics", f"0.0.1 on rank {last}")
    given = outcomes(found, world, "unforeseen")
    check_error(given, "StateError", f"rank 0 (and rank {last}): MemoryError: no memory on 0")
    given = outcomes(found, world, "wrong dst")
    check_error(given, "InputError", "dst: must be a rank of the group", str(world))


@each_world
def test_cases_of_ranks(found: Any, world: int) -> None:
    for line, case in enumerate(load_cases("COCO bbox, 2 ranks")):
        for place in range(1 + len(case["input"].get("also_as_ranks", []))):
            if f"case {line}.{place}" not in found(world)[0]:
                continue
            for one in outcomes(found, world, f"case {line}.{place}"):
                assert one.error is None
                numbers = one.result.to_dict()
                for key, value in case["expected"].items():
                    if key in numbers:
                        assert same(numbers[key], value, 5e-11), (line, place, key)


@pytest.mark.parametrize("world", [3, 4])
def test_two_groups_at_once(found: Any, world: int) -> None:
    names = ("detection", "segmentation")
    everyone = outcomes(found, world, "group")
    for parity, name in enumerate(names):
        check(everyone[parity::2], expected(name))
        *others, last = outcomes(found, world, "group dst")[parity::2]
        check([last], expected(name))
        assert all(one.result is None for one in others)
    for one in outcomes(found, world, "other group"):
        assert one.error is not None
        assert "not in the process group" in one.error[1]
        assert one.collectives == []


@pytest.mark.parametrize("world", [3, 4], ids=["ended", "late"])
def test_a_lost_rank_ends_the_waiting(found: Any, world: int) -> None:
    """One of three ranks has ended, one of four does not come within the timeout."""
    for rank in found(world)[:-1]:
        kind, sentence = rank["lost"].error
        assert kind == "StateError"
        assert "a rank was lost, or did not come in time" in sentence
        assert "compute(sync=False)" in sentence
        assert rank["lost after"].result < PATIENCE + 5
