"""``python -m torch_vocmetrics`` is the command ``vocmetrics``."""

import sys

from .cli.command import main

sys.exit(main())
