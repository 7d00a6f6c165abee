"""Settings for every test: hypothesis profiles, one torch thread, failures told at once."""

import os
import sys
import tempfile

os.environ.setdefault("JANUSC_VERIFY", "each")  # read when janusc is imported
os.environ.setdefault("JANUSC_COMPILER_NICE", "0")  # the tests use all processors, and wait
if "JANUSC_CACHE_DIR" not in os.environ:  # workers share that of the process which starts them
    _CACHE = tempfile.TemporaryDirectory(prefix="janusc-test-cache-")
    os.environ["JANUSC_CACHE_DIR"] = _CACHE.name

import pytest
import torch
from hypothesis import HealthCheck, settings

from janusc.runtime.kernels import measured

sys.path.insert(0, os.path.dirname(__file__))  # for `corpus` and `strategies`, whatever the import mode

settings.register_profile("ci", max_examples=20, derandomize=True, deadline=None, database=None)
settings.register_profile("long", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("long" if os.environ.get("JANUSC_FUZZ") == "1" else "ci")

torch.set_num_threads(1)
measured.LONG = float("inf")  # no kernels unasked: results would depend on how fast the machine is


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # workers only report to the process that prints
        config.pluginmanager.register(Teller(config))


class Teller:
    """Prints a failure when it happens: a run that is cut short has said then what was wrong."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        if report.failed:
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            reporter.ensure_newline()
            reporter.write_line(f"FAILED {report.nodeid} ({report.when}, after {report.duration:.1f} s)")
            reporter.write_line(report.longreprtext[-2000:])


@pytest.fixture
def two_threads():
    """torch works with two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
