"""Shards of a data set as Ray tasks: state files come out, and one result.

``python -m torch_vocmetrics.examples.evaluate_with_ray`` on one machine; ``--address auto`` on a
cluster, with a folder that all machines share.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence

import ray

from torch_vocmetrics import DetectionResult, Metric

from .shards import evaluate_shard


def run(options: argparse.Namespace) -> DetectionResult:
    """Evaluate the shards wherever Ray puts them, and merge their states."""
    task = ray.remote(num_cpus=1, max_retries=3)(evaluate_shard)
    waiting = [
        task.remote(shard, options.shards, options.validation_scenes, options.folder)
        for shard in range(options.shards)
    ]
    result: DetectionResult = Metric.from_states(*ray.get(waiting)).compute()
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run with Ray."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--validation-scenes", type=int, default=101)
    parser.add_argument("--folder", help="of the state files; default: a temporary one")
    parser.add_argument("--address", help="of a Ray cluster; default: start one on this machine")
    options = parser.parse_args(arguments)
    ray.init(address=options.address, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        options.folder = options.folder or folder
        result = run(options)
    print(f"{options.shards} shards: {result.num_images} images, mAP {result.headline!r}")
    ray.shutdown()


if __name__ == "__main__":
    main()
