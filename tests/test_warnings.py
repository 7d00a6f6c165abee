"""Warnings: as often as in eager mode, at the same places, whoever gives them."""

import logging
import sys
import threading
import warnings

import pytest
import torch

import janusc as janus
from janusc.once import uncounted_warnings


def seen(function, *calls, action="always"):
    """The warnings of some calls, with the lines they are at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        for arguments in calls:
            function(*arguments)
    return [(str(w.message), w.category.__name__, w.filename == __file__ and w.lineno) for w in caught]


def here(function, offset):
    return function.__code__.co_firstlineno + offset


def cross(x, n):
    y = torch.cross(x * 2, x)
    return y.view(n)


def test_what_torch_says_once_is_said_once():
    g = janus.compile(cross, warmup=0)
    x = torch.ones(2, 3)
    ((text, category, line),) = seen(g, (x, 6), (x, 6), (x, 6), (x, 6))
    assert "torch.cross" in text and category == "UserWarning" and line == here(cross, 1)
    assert janus.stats(g).graph_calls >= 2


@pytest.mark.parametrize("fails", [False, True])
def test_a_warning_of_torch_in_a_graph_is_given_once(fails):
    def f(x, n):
        y = torch.tanh(x.float())
        return y.view(n)

    def run(x, n):
        try:
            return g(x, n)
        except RuntimeError:
            return None

    g = janus.compile(f, warmup=1)
    for _ in range(3):
        g(torch.ones(2), 2)
    torch.set_warn_always(True)
    try:
        odd = torch.ones(2, dtype=torch.complex64), 3 if fails else 2
        for _ in range(4):
            ((text, _, line),) = seen(run, odd)
            assert "complex" in text and line == here(f, 1)
    finally:
        torch.set_warn_always(False)
    assert janus.stats(g).graph_calls >= 2


def test_a_warning_made_an_error_is_raised_from_the_users_line():
    def f(x):
        try:
            return torch.tanh(x.float())
        except UserWarning:
            return torch.zeros(1)

    g = janus.compile(f, warmup=1)
    for _ in range(3):
        g(torch.ones(2))
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert torch.equal(g(torch.ones(2, dtype=torch.complex64)), torch.zeros(1))
    finally:
        torch.set_warn_always(False)


def users_warning(x, flag):
    y = torch.tanh(x)
    if flag:
        warnings.warn("of the caller", DeprecationWarning, stacklevel=2)
        warnings.warn("of the function", stacklevel=1)
    return y * 2


def caller(function, x):
    return function(x, True)


def test_a_stack_level_means_the_users_caller():
    g = janus.compile(users_warning, warmup=1)
    x = torch.ones(2)
    wanted = [
        ("of the caller", "DeprecationWarning", here(caller, 1)),
        ("of the function", "UserWarning", here(users_warning, 4)),
    ]
    assert seen(lambda: caller(users_warning, x), ()) == wanted
    for _ in range(6):
        assert seen(lambda: caller(g, x), ()) == wanted
    assert janus.stats(g).graph_calls >= 2


def test_a_stack_level_from_a_call_that_was_rolled_back():
    def f(x, k):
        y = torch.tanh(x).view(2, k)
        if y.sum() > 100:
            warnings.warn("large", stacklevel=2)
        return y * 2

    g = janus.compile(f, warmup=1)
    for _ in range(4):
        g(torch.ones(2), 1)

    def call(function):
        return function(torch.ones(400), 200)

    assert seen(call, (g,)) == seen(call, (f,)) == [("large", "UserWarning", here(call, 1))]


def test_shown_once_for_each_calling_line():
    g = janus.compile(users_warning, warmup=1)

    def twice(function):
        for _ in range(3):
            function(torch.ones(2), True)
        function(torch.ones(2), True)

    assert seen(twice, (g,), action="default") == seen(twice, (users_warning,), action="default")


def test_a_record_names_the_users_function():
    logger, records = logging.getLogger("test of janusc"), []
    handler = logging.Handler()
    handler.emit = lambda record: records.append((record.funcName, record.lineno))
    logger.addHandler(handler)

    def f(x):
        y = torch.tanh(x)
        logger.warning("here")
        logger.warning("there", stacklevel=2)
        return y * 2

    def call(function):
        return function(torch.ones(2))

    g = janus.compile(f, warmup=1)
    logger.propagate = False
    try:
        call(f)
        for _ in range(5):
            call(g)
    finally:
        logger.removeHandler(handler)
    assert len(records) == 12 and set(records[::2]) == {("f", here(f, 2))}
    if sys.version_info >= (3, 11):  # before, logging counts the frames that warnings does not
        assert set(records[1::2]) == {("call", here(call, 1))}


def test_the_switch_of_the_process_goes_back_with_the_last_thread():
    assert not torch.is_warn_always_enabled()
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with uncounted_warnings():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    with uncounted_warnings():
        thread.start()
        entered.wait()
    assert torch.is_warn_always_enabled()
    leave.set()
    thread.join()
    assert not torch.is_warn_always_enabled()
