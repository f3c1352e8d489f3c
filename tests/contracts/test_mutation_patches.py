"""The list of planted mistakes is in step with the package."""

from __future__ import annotations

import ast

from mutation.patches import PACKAGE, TESTS, load_patches

AREAS = ("ops/", "matching/", "tables/", "states/", "metrics/", "inputs/", "io/", "distributed")
REMEDY = "bring tests/mutation/patches.toml in step with the package"


def test_every_patch_changes_the_code_in_one_place() -> None:
    wrong = []
    for patch in load_patches():
        source = (TESTS.parent / PACKAGE / patch.file).read_text(encoding="utf-8")
        try:
            changed = patch.applied(source)
        except ValueError as error:
            wrong.append(str(error))
            continue
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)):
            wrong.append(f"{patch} changes nothing")
    assert not wrong, "\n".join([REMEDY, *wrong])


def test_every_patch_names_tests() -> None:
    files = {name.split("::")[0] for patch in load_patches() for name in patch.tests}
    missing = {name for name in files if not (TESTS / name).is_file()}
    assert not missing, REMEDY


def test_the_list_covers_the_package() -> None:
    patches = load_patches()
    assert len(patches) >= 150
    assert len(set(patches)) == len(patches)
    for area in AREAS:
        assert any(patch.file.startswith(area) for patch in patches), area
