"""Reports in headless Chromium: sorting, links, widths, and text that would attack a page."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.browser import Page, find_chromium

from torch_vocmetrics import DetectionAP
from torch_vocmetrics.report import report

CHROMIUM = find_chromium()
MISSING = [name for name in ("jinja2", "matplotlib") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium, such as Debian's package chromium, is installed"
    ),
    pytest.mark.skipif(bool(MISSING), reason="reports need the extra report"),
]
NAMES = ["<script>alert(1)</script>", "cow", "ant", "</td><img src=x onerror=alert(2)>", "empty"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on 30 images whose names have quotes; the last class has no objects."""
    generator = torch.Generator().manual_seed(0)
    metric: Any = DetectionAP("voc2012", class_names=NAMES, diagnostics=True)
    for image in range(30):
        corner = torch.randint(0, 200, (9, 2), generator=generator)
        boxes = torch.cat([corner, corner + torch.randint(20, 90, (9, 2), generator=generator)], 1)
        shares = torch.tensor([0.6, 0.3, 0.08, 0.02])
        labels = torch.multinomial(shares, 9, replacement=True, generator=generator)
        scores = torch.rand(9, generator=generator)
        prediction = {"boxes": boxes + image % 20, "labels": labels, "scores": scores}
        target = {"boxes": boxes, "labels": labels, "image_id": f"\"{image}' onclick='x"}
        metric.update([prediction], [target])
    out = tmp_path_factory.mktemp("report") / "report.html"
    report(metric, out, num_resamples=20)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with Page(CHROMIUM or "") as opened:
        yield opened


@pytest.fixture(params=[390, 1280])
def page(request: pytest.FixtureRequest, browser: Page, path: Path) -> Iterator[Page]:
    """The page at both widths; whatever a test does, nothing complains and nothing is loaded."""
    browser.open(path, request.param)
    yield browser
    browser.value("1")
    assert browser.complaints == []
    assert browser.requests == []


def column(page: Page, index: int) -> list[str]:
    cells = f"#classes tbody tr td:nth-child({index})"
    return page.value(f"Array.from(document.querySelectorAll({cells!r}), e => e.textContent)")


def test_headings_sort(page: Page) -> None:
    assert column(page, 1) == NAMES
    page.click("#classes th:nth-child(1) button")
    assert [name for name in column(page, 1) if name.isalpha()] == ["ant", "cow", "empty"]
    page.click("#classes th:nth-child(2) button")
    shown = column(page, 2)
    assert shown[-1] == "not in the mean", "what is undefined comes last"
    values = [float(text) for text in shown[:-1]]
    assert values == sorted(values, reverse=True)
    head = "document.querySelector('#classes th:nth-child(2)').getAttribute('aria-sort')"
    assert page.value(head) == "descending"
    page.click("#classes th:nth-child(2) button")
    shown = column(page, 2)
    assert [float(text) for text in shown[:-1]] == sorted(values)
    assert shown[-1] == "not in the mean"
    assert page.value(head) == "ascending"
    assert page.value("document.querySelectorAll('[aria-sort]').length") == 1
    foot = "document.querySelector('#classes tfoot td').textContent"
    assert page.value(foot) == "mean over 4"


def test_counts_sort_as_numbers(page: Page) -> None:
    page.click("#classes th:nth-child(4) button")
    counts = [int(text) for text in column(page, 4)]
    assert counts == sorted(counts, reverse=True)
    assert len({len(str(count)) for count in counts}) > 1, "as texts they would stand otherwise"


def test_the_keyboard_sorts(page: Page) -> None:
    page.value("document.querySelector('#classes th:nth-child(3) button').focus()")
    for kind in ("keyDown", "keyUp"):
        page.ask("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r")
    assert page.value("document.querySelectorAll('#classes [aria-sort]').length") == 1


def test_links_lead_to_their_parts(page: Page) -> None:
    page.value("document.documentElement.style.scrollBehavior = 'auto'")
    count = page.value("document.querySelectorAll('nav a').length")
    assert count >= 8
    for number in range(1, count + 1):
        page.click(f"nav li:nth-child({number}) a")
        name = page.value("location.hash.slice(1)")
        top = page.value(f"document.getElementById({name!r}).getBoundingClientRect().top")
        last = page.value(
            "Math.ceil(scrollY + innerHeight) >= document.documentElement.scrollHeight"
        )
        assert abs(top) < 3 or last, name


def test_the_page_fits(page: Page) -> None:
    """Nothing is wider than the window but tables, which scroll by themselves; text is readable."""
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    wide = (
        "Array.from(document.querySelectorAll('h1, h2, p, nav, img, figcaption, .scroll'))"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert page.value(wide) == 0
    small = (
        "Array.from(document.querySelectorAll('td, th, p, a, figcaption'))"
        ".filter(e => parseFloat(getComputedStyle(e).fontSize) < 12).length"
    )
    assert page.value(small) == 0
    broken = "Array.from(document.images).filter(e => !e.complete || !e.naturalWidth).length"
    assert page.value(broken) == 0


def test_names_do_no_harm(page: Page) -> None:
    assert page.value("document.scripts.length") == 1
    assert page.value("document.querySelectorAll('[onerror], [onclick], img[src=x]').length") == 0
    assert column(page, 1)[0] == NAMES[0]


def test_scripts_that_get_in_do_not_run(browser: Page, path: Path, tmp_path: Path) -> None:
    """The policy of the page refuses any script but its own."""
    text = path.read_text().replace("<main>", "<main><script>document.title = 'in'</script>", 1)
    forged = tmp_path / "forged.html"
    forged.write_text(text)
    browser.open(forged, 1280)
    assert browser.value("document.title") != "in"
    assert any("Content Security Policy" in one for one in browser.complaints)
    browser.complaints.clear()


def test_without_javascript_all_is_there(browser: Page, path: Path) -> None:
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(path, 1280)
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.value("document.querySelectorAll('th button').length") == 0
    assert browser.value("document.body.innerText.includes('mean over 4')")
    assert column(browser, 1) == NAMES


def test_it_prints(browser: Page, path: Path) -> None:
    browser.open(path, 1280)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    assert browser.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    scroll = "getComputedStyle(document.querySelector('.scroll')).overflowX"
    assert browser.value(scroll) == "visible"
    browser.ask("Emulation.setEmulatedMedia", media="")
