"""``python -m torch_vocmetrics`` is the command ``vocmetrics``."""

import sys

from .cli import main

sys.exit(main())
