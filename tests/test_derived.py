"""Attributes that are worked out once."""

import threading
from dataclasses import dataclass

import pytest

from janusc.derived import derived


@dataclass(frozen=True)
class Row:
    items: tuple

    @derived
    def total(self):
        """The sum."""
        asked.append(self)
        return sum(self.items)


asked = []


def test_it_is_worked_out_once_for_each_object_and_can_fail():
    asked.clear()
    row, other = Row((1, 2)), Row((3,))
    assert [row.total, row.total, other.total] == [3, 3, 3] and len(asked) == 2
    assert row == Row((1, 2)) and Row.__dict__["total"].__doc__ == "The sum."
    for _ in range(2):
        with pytest.raises(TypeError):
            Row((1, "a")).total  # noqa: B018


def test_one_that_takes_long_keeps_no_other_thread_out():
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, waits):
            self.waits = waits

        @derived
        def value(self):
            if self.waits:
                begun.set()
                go_on.wait(30)
            return object()

    slow, quick = Slow(True), Slow(False)
    found = []
    thread = threading.Thread(target=lambda: found.append(slow.value))
    thread.start()
    begun.wait(30)
    assert quick.value is quick.value  # while the other is at work
    go_on.set()
    thread.join()
    assert found == [slow.value]
