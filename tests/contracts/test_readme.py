"""What the README shows is what happens.

A block of Python runs by itself, in an empty folder; the text block behind it is what it prints. A
block marked ``python excerpt`` is part of a program that other tests run.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

README = Path(__file__).parents[2] / "README.md"
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    line: int
    code: str
    prints: str


def blocks(text: str) -> list[Block]:
    """The Python blocks and what stands behind each as its output."""
    fences = list(FENCE.finditer(text))
    found = []
    for fence, behind in zip(fences, [*fences[1:], None], strict=True):
        if fence["kind"] != "python":
            continue
        prints = ""
        if behind is not None and behind["kind"] == "text":
            follows = not text[fence.end() : behind.start()].strip()
            prints = behind["text"] if follows else ""
        found.append(Block(text[: fence.start()].count("\n") + 1, fence["text"], prints))
    return found


BLOCKS = blocks(README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line{block.line}")
def test_a_block_of_the_readme_prints_what_it_says(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("error")
        exec(compile(block.code, f"README.md:{block.line}", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == block.prints


def test_the_readme_has_blocks_that_print() -> None:
    assert sum(bool(block.prints) for block in BLOCKS) >= 5


def test_a_block_and_its_output_are_found() -> None:
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\n```python excerpt\nx\n```\n"
    assert blocks(text) == [Block(1, "print(1)\n", "1\n")]


def test_the_contents_name_the_headings() -> None:
    text = README.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", line[3:].lower()).replace(" ", "-")
        for line in re.sub(FENCE, "", text).splitlines()
        if line.startswith("## ")
    }
    linked = set(re.findall(r"\]\(#([\w-]+)\)", text))
    assert linked
    assert sorted(linked - headings) == []
