"""The command ``vocmetrics``: official numbers from the files that the official tools read."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from ..errors import VocMetricsError, VocMetricsWarning
from .arguments import command_parser
from .streams import flush_output, replace_closed_streams, say


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code: 0, or 2 after one sentence on standard error.

    Args:
        argv: the arguments; None takes those of the process.

    Example:
        >>> main(["protocols", "voc2007"])  # doctest: +ELLIPSIS
        detection/voc2007: PASCAL VOC 2007-2009 detection, 11-point average precision
        ...
    """
    replace_closed_streams()
    with warnings.catch_warnings():
        warnings.simplefilter("always", VocMetricsWarning)
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        try:
            code = _run(argv)
            flush_output()
            return code
        except BrokenPipeError:  # whoever reads the table has seen enough
            return 0
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            return _fail(f"{place}{error.strerror or error}")
        except UnicodeEncodeError as error:
            return _fail(f"the terminal cannot show all letters ({error.reason}); set PYTHONUTF8=1")
        except VocMetricsError as error:
            return _fail(str(error))
        except MemoryError:
            return _fail("the memory is not enough for these files")
        except KeyboardInterrupt:
            say("vocmetrics: interrupted")
            return 130


def _run(argv: Sequence[str] | None) -> int:
    """Parse the arguments and run the subcommand; what it raises becomes a sentence above."""
    parser = command_parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has said what is wrong, or printed its help
        return int(stop.code or 0)
    if args.run is None:
        parser.print_help()
        return 0
    module, _, function = args.run.partition(":")
    getattr(import_module(f".{module}", __package__), function)(args)
    return 0


def _fail(sentence: str) -> int:
    say(f"vocmetrics: error: {sentence}", style="red")
    return 2


def _show_warning(message: Warning | str, *_: object) -> None:
    say(f"vocmetrics: warning: {message}", style="yellow")


if __name__ == "__main__":
    sys.exit(main())
