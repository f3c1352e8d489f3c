"""Who may import whom, and what an import may bring along."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import torch_vocmetrics

PACKAGE = Path(torch_vocmetrics.__file__).parent

# A module or package may import from its own layer and from those before it.
LAYERS = (
    {"errors", "limits", "_version"},
    {"kernels", "ops", "ragged", "image_masks", "transfer", "host_work", "protocols", "lanes"},
    {"inputs", "states"},
    {"tables"},
    {"matching"},
    {"curves", "results", "distributed", "plots"},
    {"records"},
    {"metrics"},
    {"analysis"},
)
EDGE = {"io", "cli", "drawing", "report", "testing", "integrations", "examples", "__main__"}
REFERENCE = {"errors", "limits", "protocols", "results"}
FORBIDDEN_AT_IMPORT = ("torchvision", "PIL", "pycocotools", "matplotlib", "scipy", "pandas")


def _top(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    """Top-level modules of the package that a file imports, at whatever depth."""
    found = set()
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            name = node.module or ""
            if node.level == depth:
                found |= {name.split(".")[0]} if name else {alias.name for alias in node.names}
            elif node.level == 0 and name.split(".")[0] == "torch_vocmetrics":
                rest = name.split(".")[1:2]
                found |= set(rest) if rest else {"torch_vocmetrics"}
        elif isinstance(node, ast.Import):
            parts = [alias.name.split(".") for alias in node.names]
            found |= {p[1] for p in parts if p[0] == "torch_vocmetrics" and len(p) > 1}
    return found


MODULES = sorted(PACKAGE.rglob("*.py"))


def _layer(name: str) -> int | None:
    return next((number for number, names in enumerate(LAYERS) if name in names), None)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards(path: Path) -> None:
    mine = _top(path)
    imported = _imports(path) - {mine}
    if mine == "__init__":
        assert not imported & EDGE, "the package must not load its edges"
    elif mine == "reference":
        assert imported <= REFERENCE, f"reference shares code with the fast path: {imported}"
    elif mine in EDGE:
        inner = imported - EDGE - {"torch_vocmetrics", "reference"}
        allowed = {"errors", "limits", "protocols", "results"}
        if mine in ("cli", "report", "integrations"):
            allowed |= {"analysis", "plots"}
        if mine == "io":  # Run lengths of files are checked where the file can be named.
            allowed |= {"ops", "image_masks"}
        assert inner <= allowed, f"{mine} uses more than public names: {inner - allowed}"
    else:
        layer = _layer(mine)
        assert layer is not None, f"{mine} has no layer: give it one here"
        above = {name for name in imported if (_layer(name) or 0) > layer or name in EDGE}
        assert not above, f"{mine} imports from above: {above}"
        assert "reference" not in imported


def test_the_layering_test_sees_imports() -> None:
    """The check itself: it finds the imports that are known to be there."""
    assert len(MODULES) > 20
    assert {"errors", "protocols"} <= _imports(PACKAGE / "inputs" / "images.py")
    assert {"curves", "lanes"} <= _imports(PACKAGE / "metrics" / "detection.py")


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys; from torch_vocmetrics import *; "
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    loaded = run.stdout.split()
    assert "torch" in loaded
    assert not set(FORBIDDEN_AT_IMPORT) & set(loaded)
    assert len(torch_vocmetrics.__all__) <= 25


def test_sizes() -> None:
    for path in MODULES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path}: {node.name}"


def test_boxes_need_no_pycocotools() -> None:
    """It reads run lengths of masks and the files of COCO, nothing else."""
    code = """
import sys
sys.modules["pycocotools"] = None
from torch_vocmetrics import DetectionAP
rows = {"boxes": [[10.0, 10.0, 50.0, 50.0]], "labels": [0]}
metric = DetectionAP(["voc2007", "coco2017"], num_classes=1)
results = metric.update([rows | {"scores": [0.9]}], [rows]).compute()
print(*(round(result.headline, 9) for result in results.values()))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1.0", "1.0"]
