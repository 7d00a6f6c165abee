"""Forked children that can't outlive a test, whatever they are stuck at."""

import os
import signal
import time

SECONDS = 60


def in_child(work):
    """Whether ``work`` returns True in a forked process; a child that is stuck is killed and has not returned it."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a handler in Python would wait for whatever the child waits for
        signal.alarm(SECONDS)
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    deadline = time.monotonic() + SECONDS + 5
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False
