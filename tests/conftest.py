"""Settings for every test: hypothesis profiles, one torch thread."""

import os
import sys

import torch
from hypothesis import HealthCheck, settings

sys.path.insert(0, os.path.dirname(__file__))  # for `corpus` and `strategies`, whatever the import mode

settings.register_profile("ci", max_examples=20, derandomize=True, deadline=None, database=None)
settings.register_profile("long", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("long" if os.environ.get("JANUSC_FUZZ") == "1" else "ci")

torch.set_num_threads(1)
