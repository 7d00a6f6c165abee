"""Steps of optimizers without a compiler, and the whole steps that were made."""

import pytest
import stepping

from janusc.runtime.kernels import whole
from janusc.runtime.kernels.updates import places


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr(places, "request", stepping.Uncompiled)


@pytest.fixture
def finished(monkeypatch):
    """The optimizers of the whole steps that were made, one for each."""
    made, finish = [], whole.WholeStep.finish

    def counted(self, optimizer, prepared):
        made.append(optimizer)
        return finish(self, optimizer, prepared)

    monkeypatch.setattr(whole.WholeStep, "finish", counted)
    return made
