"""Calls from deep in the stack."""

import sys
import warnings

import torch

import janusc as janus


def test_a_conversion_that_found_no_room_on_the_stack_is_tried_again():
    def f(x):
        return (x * 2).relu() + 1

    g = janus.compile(f, warmup=0)

    def deep(frames):
        return deep(frames - 1) if frames else g(torch.ones(2))

    def depth():
        frame, count = sys._getframe(), 0
        while frame is not None:
            frame, count = frame.f_back, count + 1
        return count

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(deep(sys.getrecursionlimit() - depth() - 40), torch.full((2,), 3.0))
        assert janus.stats(g).graph_calls == 0
        for _ in range(6):
            g(torch.ones(2))
    assert janus.stats(g).graph_calls > 0
