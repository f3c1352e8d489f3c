"""Seeded image weights: bootstrap resamples and the groups of a jackknife."""

from __future__ import annotations

import torch
from torch import Tensor


def resampling_generator(seed: int) -> torch.Generator:
    """The source of resamples: on the host, so that they are the same on every device."""
    return torch.Generator(device="cpu").manual_seed(seed)


def bootstrap_weights(num_images: int, num_resamples: int, generator: torch.Generator) -> Tensor:
    """[W, I] int32: how often each image was drawn when I images were drawn with replacement.

    Resamples are drawn one at a time, so that two calls for W / 2 resamples give those of one call
    for W.

    Args:
        num_images: I.
        num_resamples: W.
        generator: of :func:`resampling_generator`.

    Example:
        >>> bootstrap_weights(3, 2, resampling_generator(seed=0)).sum(dim=1).tolist()
        [3, 3]
    """
    weights = torch.zeros((num_resamples, num_images), dtype=torch.int32, device="cpu")
    ones = torch.ones(num_images, dtype=torch.int32, device="cpu")
    for row in weights:
        drawn = torch.randint(num_images, (num_images,), generator=generator, device="cpu")
        row.index_add_(0, drawn, ones)
    return weights


def jackknife_weights(num_images: int, num_groups: int) -> Tensor:
    """[G, I] int32: all images but those of one group each; image i is in group i mod G.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11; with fewer
    groups than images it is the delete-a-group jackknife.

    Example:
        >>> jackknife_weights(3, 3).tolist()
        [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    """
    groups = min(num_images, num_groups)
    owner = torch.arange(num_images, device="cpu") % max(groups, 1)
    return (owner != torch.arange(groups, device="cpu").unsqueeze(1)).to(torch.int32)
