"""Which names of torch, NumPy, Triton and torchvision the package uses, and which there are.

``python tests/contracts/apis.py`` under the oldest versions writes ``oldest_apis.txt``, by which
``test_oldest_apis.py`` judges under any version: ``make test-oldest`` does so.
"""

from __future__ import annotations

import ast
import importlib
import types
from pathlib import Path

ROOTS = ("torch", "numpy", "triton", "torchvision")
CLASSES = ("torch.Tensor", "numpy.ndarray")
"""Methods are found by their names alone: the type of an object is not known."""

FOLDER = Path(__file__).parent
PACKAGE = FOLDER.parent.parent / "torch_vocmetrics"
LIST = FOLDER / "oldest_apis.txt"


def used_names(text: str) -> set[str]:
    """Dotted names of the libraries in a module, such as ``torch.nn.functional.pad``."""
    tree = ast.parse(text)
    known: dict[str, str] = {}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ROOTS:
                    names.add(alias.name)
                    root = alias.name.split(".")[0]
                    known[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            outside = not node.level and (node.module or "").split(".")[0] in ROOTS
            for alias in node.names if outside else ():
                names.add(f"{node.module}.{alias.name}")
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        parts: list[str] = []
        inner: ast.expr = node if isinstance(node, ast.expr) else ast.Constant(None)
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in known:
            names.add(".".join([known[inner.id], *parts]))
    return names


def used_attributes(text: str) -> set[str]:
    """Names of all attributes and methods in a module."""
    return {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}


def sources() -> dict[str, str]:
    """The text of every module of the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in paths}


def modules_of(names: set[str]) -> list[str]:
    """The modules, as far as they can be imported, of dotted names."""
    found = set()
    for name in names:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            module = ".".join(parts[:length])
            try:
                if isinstance(importlib.import_module(module), types.ModuleType):
                    found.add(module)
            except ImportError:
                break
    return sorted(found)


def installed_names() -> list[str]:
    """All names in the modules that the package uses, in the versions that are installed."""
    names = set().union(*map(used_names, sources().values()))
    lines = []
    for module in modules_of(names):
        lines += [f"{module}.{name}" for name in dir(importlib.import_module(module))]
        lines.append(module)
    # Some modules make attributes on request, which dir() does not list.
    lines += [name for name in names if _is_there(name)]
    for path in CLASSES:
        module, _, name = path.rpartition(".")
        owner = getattr(importlib.import_module(module), name)
        lines += [f"{path}.{attribute}" for attribute in dir(owner)]
    return sorted({line for line in lines if line in names or "._" not in line})


def _is_there(name: str) -> bool:
    owner, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(owner), attribute)
    except (ImportError, ValueError):
        return False


def main() -> None:
    """Write the list, with the versions in its first line."""
    versions = (f"{root} {importlib.import_module(root).__version__}" for root in ROOTS)
    LIST.write_text("\n".join(["# " + ", ".join(versions), *installed_names(), ""]))


if __name__ == "__main__":
    main()
