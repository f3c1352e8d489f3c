"""Compile the kernel for two generations of cards; print what the machine code uses as JSON."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from torch_vocmetrics.matching.greedy_cuda import match_kernel

FLOAT64 = ("boxes", "object_boxes", "regions", "epsilon", "thresholds")
SIZES = ("num_detections", "num_objects", "num_thresholds")
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def kind(name: str, constants: dict[str, Any]) -> str:
    if name in constants:
        return "constexpr"
    if name in SIZES:
        return "i32"
    return "*fp64" if name in FLOAT64 else "*i1" if name == "over_area" else "*i64"


def compiled(capability: int, size: int, best_only: bool, two_shapes: bool) -> dict[str, Any]:
    constants = {
        "size": size,
        "inclusive": best_only,
        "strict": False,
        "best_only": best_only,
        "last_wins": not best_only,
        "two_shapes": two_shapes,
        "claims_used": two_shapes,
    }
    names = match_kernel.arg_names
    signature = {name: kind(name, constants) for name in names}
    aligned = [place for place, name in enumerate(names) if signature[name].startswith("*")]
    if "constexprs" in inspect.signature(ASTSource.__init__).parameters:
        source = ASTSource(
            fn=match_kernel,
            signature=signature,
            constexprs={(names.index(name),): value for name, value in constants.items()},
            attrs={(place,): [["tt.divisibility", 16]] for place in aligned},
        )
    else:  # Triton 3.0 to 3.2
        from triton.compiler.compiler import AttrsDescriptor  # noqa: PLC0415

        signature = {name: text for name, text in signature.items() if text != "constexpr"}
        attrs = AttrsDescriptor(divisible_by_16=tuple(aligned), equal_to_1=())
        source = ASTSource(fn=match_kernel, signature=signature, constants=constants, attrs=attrs)
    code = triton.compile(
        source,
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": 1 if size <= 64 else 4, "enable_fp_fusion": False},
    ).asm
    usage = resources(code["cubin"])
    return {
        "capability": capability,
        "size": size,
        "best_only": best_only,
        "two_shapes": two_shapes,
        "fma": code["ptx"].count("fma.rn.f64"),
        "float32": len(re.findall(r"\.f32\b", code["ptx"])),
        "divisions": code["ptx"].count("div.rn.f64"),
        "registers": usage["REG"],
        "stack_bytes": usage["STACK"],
        "local_bytes": usage["LOCAL"],
    }


def resources(cubin: bytes) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        shown = subprocess.run(
            [CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    return {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", shown)}


variants = [(size, False, False) for size in (16, 64, 256)]
variants += [(32, True, False), (32, False, True)]  # VOC, pedestrians
print(json.dumps([compiled(sm, *variant) for sm in (80, 90) for variant in variants]))
