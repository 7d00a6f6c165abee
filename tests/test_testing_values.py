"""The equivalence harness tells values of every kind apart, also those that have no ``==`` of their own."""

import array
import collections
import datetime
import decimal
import enum
import functools
import re
import types
import uuid
import warnings

import numpy
import pytest
import torch
from wrong_compilers import ONES, double, returning

from janusc.testing import assert_equivalent


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def quietly(make):
    """What torch makes with a warning about its future."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def coo(indices, values):
    return torch.sparse_coo_tensor(indices, values, (2, 3))


def nested(*rows):
    return quietly(lambda: torch.nested.nested_tensor([torch.ones(row, 2) for row in rows]))


def quantized(scale):
    return quietly(lambda: torch.quantize_per_tensor(torch.zeros(2), scale, 0, torch.qint8))


VALUES = {
    "values of a sparse tensor": (coo([[0], [1]], [1.0]).coalesce(), coo([[0], [1]], [2.0]).coalesce()),
    "indices of a sparse tensor": (coo([[0], [1]], [0.0]).coalesce(), coo([[1], [1]], [0.0]).coalesce()),
    "coalesced": (coo([[0, 0], [1, 1]], [1.0, 2.0]), coo([[0, 0], [1, 1]], [1.0, 2.0]).coalesce()),
    "values of a compressed tensor": (quietly(ONES.to_sparse_csr), quietly((ONES * 2).to_sparse_csr)),
    "rows of a compressed tensor": (
        quietly(torch.tensor([[1.0, 0], [0, 0]]).to_sparse_csr),
        quietly(torch.tensor([[0, 0], [1.0, 0]]).to_sparse_csr),
    ),
    "values of a nested tensor": (nested(1, 2), nested(1, 2) * 2),
    "lengths in a nested tensor": (nested(1, 2), nested(2, 1)),
    "stride of a meta tensor": (
        torch.empty_strided((2, 3), (3, 1), device="meta"),
        torch.empty_strided((2, 3), (1, 2), device="meta"),
    ),
    "scale of a quantized tensor": (quantized(0.1), quantized(0.2)),
    "decimal": (decimal.Decimal(1), decimal.Decimal("1.0")),
    "date": (datetime.date(2000, 1, 1), datetime.date(2000, 1, 2)),
    "duration": (datetime.timedelta(1), datetime.timedelta(2)),
    "bytearray": (bytearray(b"a"), bytearray(b"b")),
    "array": (array.array("i", [1]), array.array("i", [2])),
    "pattern": (re.compile("a"), re.compile("b")),
    "uuid": (uuid.UUID(int=1), uuid.UUID(int=2)),
    "enum": (Colour.RED, Colour.BLUE),
    "slice": (slice(1, 2), slice(1, 3)),
    "order of an OrderedDict": (
        collections.OrderedDict(a=1, b=2),
        (lambda d: d.move_to_end("a") or d)(collections.OrderedDict(a=1, b=2)),
    ),
    "length limit of a deque": (collections.deque([1], 2), collections.deque([1], 3)),
    "set": ({1, 2}, {1, 3}),
    "set of enums": ({Colour.RED}, {Colour.BLUE}),
    "view of a dict": ({"a": 1}.keys(), {"b": 1}.keys()),
    "array of numpy": (numpy.zeros(2), numpy.ones(2)),
    "number of numpy": (numpy.float64(1), numpy.float32(1)),
    "what an exception was made with": (ValueError(1), ValueError(2)),
    "dtype of numpy": (numpy.dtype("f4"), numpy.dtype("f8")),
    "namespace": (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    "partial": (functools.partial(double, 1), functools.partial(double, 2)),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_result_of_another_value_is_caught(name):
    value, other = VALUES[name]
    with pytest.raises(AssertionError, match="call 1 of 4: (len|list)?.?result"):
        assert_equivalent(lambda x: value, ONES, compiler=returning(lambda _: other))
    assert_equivalent(lambda x: value, ONES, compiler=returning(lambda y: y))


def test_integers_of_any_length_are_compared():
    assert_equivalent(lambda n: (10**n, torch.ones(2) * n), calls=[(1,), (6000,), (2,)])
    with pytest.raises(AssertionError, match="result"):
        assert_equivalent(lambda n: 10**n, calls=[(6000,)], compiler=lambda f: lambda n: f(n) + 1)
