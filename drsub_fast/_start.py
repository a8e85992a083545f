"""Ctrl-C while the command is still importing the package: the system ends the process, without a traceback."""

import os
import signal
import sys
import threading


def _is_command():
    """Whether this process is the command ``drsub-fast`` (or ``python -m drsub_fast``), at its beginning."""
    if os.path.basename(sys.argv[0]) in ("drsub-fast", "drsub-fast.exe"):
        return True
    return sys.argv[0] == "-m" and "drsub_fast" in sys.orig_argv[1:3]


def end_quietly():
    """Until `raise_interrupts`, Ctrl-C ends the command at once; nothing is changed in other programs."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_interrupts():
    """From now on Ctrl-C raises KeyboardInterrupt in the command."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
