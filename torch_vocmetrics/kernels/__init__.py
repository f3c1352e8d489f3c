"""Triton kernels, and the one helper that registers operators for every device."""
