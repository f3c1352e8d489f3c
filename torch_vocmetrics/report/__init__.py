"""One self-contained HTML page on a result, or on the difference of two detectors.

The page loads nothing, can be read and printed without JavaScript, and all text in it is escaped.
It needs the extra ``report`` (jinja2 and matplotlib).
"""

from .comparison import compare
from .evaluation import report

__all__ = ["compare", "report"]
