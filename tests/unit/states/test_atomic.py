"""Files that appear whole: links, modes, devices, and what killed writers leave behind."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from torch_vocmetrics import ClassificationAP, InputError, Metric
from torch_vocmetrics.states.atomic import written_whole

METRIC = ClassificationAP("voc2012", num_classes=1).update([[0.5]], [[1]])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "state", tmp_path / "link"
    link.symlink_to(target)
    METRIC.save_state(link)
    METRIC.save_state(link)
    assert link.is_symlink()
    assert not target.is_symlink()
    assert names(tmp_path) == ["link", "there"]
    assert names(tmp_path / "there") == ["state"]
    assert Metric.from_states(link).compute().headline == 1.0


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_the_mode_of_a_file_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "state"
    path.touch()
    path.chmod(mode)
    METRIC.save_state(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_follows_the_umask_and_leaves_it_alone(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        METRIC.save_state(tmp_path / "state")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o640


def test_what_is_no_plain_file_is_refused_and_stays(tmp_path: Path) -> None:
    pipe, folder, link = tmp_path / "pipe", tmp_path / "folder", tmp_path / "link"
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to(pipe)
    for path, kind in ((pipe, "a named pipe"), (folder, "a folder"), (link, "a named pipe")):
        with pytest.raises(InputError, match=f"{path}: only a plain file .* got {kind}"):
            METRIC.save_state(path)
    for path in ("/dev/full", "/dev/null"):
        with pytest.raises(InputError, match=f"{path}: .* got a character device; give"):
            METRIC.save_state(path)
        assert stat.S_ISCHR(Path(path).stat().st_mode)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["folder", "link", "pipe"]


@pytest.mark.parametrize("path", [5, None, "a\0b"])
def test_what_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(InputError, match="path: must be the path of a file"):
        METRIC.save_state(path)  # type: ignore[arg-type]


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises((OSError, RuntimeError), match=r"[Ss]ymlink|symbolic links"):
        METRIC.save_state(tmp_path / "a")


def test_a_failed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), written_whole(path) as file:  # noqa: PT012
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["state"]


KILLED = """
import os, signal, sys
from torch_vocmetrics.states.atomic import written_whole
with written_whole(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path, other = tmp_path / "state", tmp_path / ".state.other.partials"
    other.touch()
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    left = [name for name in names(tmp_path) if name.endswith(".partial")]
    assert len(left) == 1
    METRIC.save_state(tmp_path / "another")
    assert left[0] in names(tmp_path), "the file of another writer's path"
    METRIC.save_state(path)
    assert names(tmp_path) == [other.name, "another", "state"]


def _save_until(path: Path, size: int) -> None:
    """Save a larger state in a process that the system ends at a byte of the file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    METRIC.merge(METRIC).save_state(path)


def test_the_old_file_survives_a_kill_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "state"
    METRIC.save_state(path)
    old = path.read_bytes()
    METRIC.merge(METRIC).save_state(tmp_path / "whole")
    whole = (tmp_path / "whole").stat().st_size
    context = multiprocessing.get_context("fork")
    for size in [*range(0, whole, max(whole // 40, 1)), whole - 1]:
        writer = context.Process(target=_save_until, args=(path, size))
        writer.start()
        writer.join(60)
        assert writer.exitcode == -signal.SIGXFSZ, size
        assert path.read_bytes() == old, size
        assert Metric.from_states(path).num_images == 1
    METRIC.save_state(path)
    assert names(tmp_path) == ["state", "whole"], "what the killed writers left is gone"


def test_a_writer_at_work_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with written_whole(path) as first:
        first.write(b"first")
        with written_whole(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["state"]


def _write_often(path: Path) -> None:
    for number in range(200):
        with written_whole(path) as file:
            file.write(bytes([number]) * 1000)


def test_writers_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "state"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_often, args=(path,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len(set(path.read_bytes())) == 1
    assert names(tmp_path) == ["state"]
