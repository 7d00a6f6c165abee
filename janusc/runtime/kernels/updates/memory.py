"""Where tensors are in memory, and that what is changed does not overlap with anything else."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from janusc.runtime.compiler.program import Input
from janusc.runtime.compiler.settings import dtype_of


def is_dense(item: Input) -> bool:
    """Whether a tensor has each element in a place of its own, and no gaps between them."""
    expected = 1
    for stride, size in sorted(zip(item.stride, item.size)):
        if size != 1:
            if stride != expected and 0 not in item.size:
                return False
            expected *= size
    return True


def extent(item: Input) -> int:
    """The bytes from the first to the last element of a tensor, both included."""
    if 0 in item.size:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(item.size, item.stride))
    return (last + 1) * dtype_of(item.dtype).itemsize


def are_apart(changed: Iterable[tuple[int, int]], read: Iterable[tuple[int, int]]) -> bool:
    """Whether ranges that are changed overlap neither with each other nor with what is read: (address, bytes) each."""
    ranges = sorted((start, start + size) for start, size in changed if size)
    if any(end > start for (_, end), (start, _) in zip(ranges, ranges[1:])):
        return False
    return not any(_overlaps(ranges, start, start + size) for start, size in read if size)


def _overlaps(ranges: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether a range overlaps with one of these, which are in order and apart."""
    before = bisect_right(ranges, (start, end))
    return (before > 0 and ranges[before - 1][1] > start) or (before < len(ranges) and ranges[before][0] < end)
