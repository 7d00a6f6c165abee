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


class Ranges:
    """Ranges of memory that do not overlap."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._starts, self._ends = [start for start, _ in ranges], [end for _, end in ranges]

    def are_apart_from(self, addresses: Sequence[int], sizes: Sequence[int]) -> bool:
        """Whether none of them overlaps with any of so many bytes from these addresses."""
        starts, ends, count = self._starts, self._ends, len(self._starts)
        for address, size in zip(addresses, sizes):
            after = bisect_right(starts, address)
            if size and (after and ends[after - 1] > address or after < count and starts[after] < address + size):
                return False
        return True


def ranges_apart(changed: Iterable[tuple[int, int]]) -> Ranges | None:
    """The ranges of (address, bytes) each; None where some of them overlap."""
    ranges = sorted((start, start + size) for start, size in changed if size)
    if any(end > start for (_, end), (start, _) in zip(ranges, ranges[1:])):
        return None
    return Ranges(ranges)
