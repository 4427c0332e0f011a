"""The `tenure` command: runs the packages beside this file, whatever PYTHONPATH and the caller's folder hold."""

from __future__ import annotations

import signal
import sys

_INTERRUPT = signal.getsignal(signal.SIGINT)
if _INTERRUPT is signal.default_int_handler:  # and not ignored, as of what a script starts in the background
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `main` can say a word, Ctrl-C ends this without a traceback

from pathlib import Path  # noqa: E402 - with what it loads this takes longer than all above

_HERE = Path(__file__).resolve().parent
_PACKAGES = ("app", "migrations")


def main() -> None:
    """Run the command line of this installation."""
    sys.path[:] = [entry for entry in sys.path if not _shadows(entry)]
    if str(_HERE) not in sys.path:
        sys.path.append(str(_HERE))
    try:
        signal.signal(signal.SIGINT, _INTERRUPT)
        from app.cli import main as run  # noqa: PLC0415 - only now is it certain which `app` this is

        run()
    except KeyboardInterrupt:  # while the libraries are loaded, or when all is done
        sys.stderr.write("tenure: interrupted\n")
        sys.exit(130)


def _shadows(entry: str) -> bool:
    """Tell whether another package or module in this folder has the name of one of ours."""
    folder = Path(entry).resolve()
    return folder != _HERE and any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for name in _PACKAGES)


if __name__ == "__main__":
    main()
