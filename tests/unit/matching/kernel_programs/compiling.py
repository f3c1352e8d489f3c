"""Compile kernels without a card; what their machine code uses."""

from __future__ import annotations

import inspect
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
GENERATIONS = (80, 90, 100)
"""Ampere, Hopper, Blackwell."""


def compiled(
    kernel: Any, types: dict[str, str], constants: dict[str, Any], capability: int, warps: int
) -> dict[str, Any]:
    """What a kernel uses on a generation of cards, with pointers as real launches have them.

    Args:
        kernel: the kernel.
        types: of its arguments, such as ``*fp64``; pointers of others are ``*i64``, numbers ``i32``
            where they are in ``numbers``.
        constants: its ``constexpr`` arguments.
        capability: of the card.
        warps: of a program.
    """
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types[name] for name in names}
    aligned = [place for place, name in enumerate(names) if signature[name].startswith("*")]
    if "constexprs" in inspect.signature(ASTSource.__init__).parameters:
        source = ASTSource(
            fn=kernel,
            signature=signature,
            constexprs={(names.index(name),): value for name, value in constants.items()},
            attrs={(place,): [["tt.divisibility", 16]] for place in aligned},
        )
    else:  # Triton 3.0 to 3.2
        from triton.compiler.compiler import AttrsDescriptor  # noqa: PLC0415

        signature = {name: text for name, text in signature.items() if text != "constexpr"}
        attrs = AttrsDescriptor(divisible_by_16=tuple(aligned), equal_to_1=())
        source = ASTSource(fn=kernel, signature=signature, constants=constants, attrs=attrs)
    built = triton.compile(
        source,
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": warps, "enable_fp_fusion": False},
    )
    code, usage = built.asm, resources(built.asm["cubin"])
    return {
        "kernel": kernel.__name__,
        "capability": capability,
        "warps": warps,
        "fma": code["ptx"].count("fma.rn.f64"),
        # Overlaps are rounded to float32 as they are stored; all arithmetic is float64.
        "float32": len(re.findall(r"\b(?!cvt|mov|st|ld)\w+[.\w]*\.f32\b", code["ptx"])),
        "divisions": code["ptx"].count("div.rn.f64"),
        "registers": usage["REG"],
        "stack_bytes": usage["STACK"],
        "local_bytes": usage["LOCAL"],
        "shared_bytes": built.metadata.shared,
    }


def resources(cubin: bytes) -> dict[str, int]:
    """Registers, stack and local memory of a thread."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        shown = subprocess.run(
            [CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    return {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", shown)}
