"""Settings of the whole suite."""

from __future__ import annotations

import pytest
import torch

pytest.register_assert_rewrite("support", "oracle")

# Results have the same bits for any number of threads; small tensors are faster on one.
torch.set_num_threads(1)
