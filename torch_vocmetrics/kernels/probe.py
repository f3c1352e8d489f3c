"""The smallest kernel, which shows whether Triton can compile and launch at all."""

import triton
import triton.language as tl


@triton.jit
def probe(number):
    """Do nothing that could be seen; it needs no memory, so that it waits for none."""
    tl.device_assert(number >= 0)
