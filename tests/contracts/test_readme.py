"""What the README shows is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_examples_of_the_readme_run() -> None:
    text = README.read_text(encoding="utf-8")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    # A fence closes an example, so that its output ends there.
    test = parser.get_doctest(text.replace("```", ""), {}, "README", str(README), 0)
    failures: list[str] = []
    runner.run(test, out=failures.append)
    assert runner.tries > 10
    assert not failures, "".join(failures)
