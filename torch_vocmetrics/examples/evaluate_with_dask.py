"""Shards of a data set as Dask tasks: state files come out, and one result.

``python -m torch_vocmetrics.examples.evaluate_with_dask`` on one machine; ``--address HOST:PORT``
on a cluster, with a folder that all machines share.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence

from distributed import Client

from torch_vocmetrics import DetectionResult, Metric

from .shards import evaluate_shard


def run(options: argparse.Namespace, client: Client) -> DetectionResult:
    """Evaluate the shards wherever Dask puts them, and merge their states."""
    sizes = {"num_shards": options.shards, "num_scenes": options.validation_scenes}
    waiting = client.map(evaluate_shard, range(options.shards), **sizes, folder=options.folder)
    result: DetectionResult = Metric.from_states(*client.gather(waiting)).compute()
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run with Dask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--validation-scenes", type=int, default=101)
    parser.add_argument("--folder", help="of the state files; default: a temporary one")
    parser.add_argument("--address", help="of a scheduler; default: start one on this machine")
    options = parser.parse_args(arguments)
    local = {} if options.address else {"n_workers": 2, "threads_per_worker": 1}
    with (
        tempfile.TemporaryDirectory() as folder,
        Client(options.address, dashboard_address=None, **local) as client,
    ):
        options.folder = options.folder or folder
        result = run(options, client)
    print(f"{options.shards} shards: {result.num_images} images, mAP {result.headline!r}")


if __name__ == "__main__":
    main()
