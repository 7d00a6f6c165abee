"""What functions are called with that they were not made for, by kind: makers of fresh values."""

import array
import collections
import decimal
import enum
import functools
import math
import warnings

import numpy
import torch
from torch import nn


class Labelled(torch.Tensor):
    """A tensor subclass without code of its own."""


class Watched(torch.Tensor):
    """A tensor subclass that sees every call."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Imitation:
    """No tensor, but it takes part in torch's calls."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.ones(3)


class Counting:
    """Answers every operator, and counts that it was asked."""

    def __init__(self):
        self.asked = 0

    def __add__(self, other):
        self.asked += 1
        return 5

    __radd__ = __mul__ = __rmul__ = __add__

    def __bool__(self):
        self.asked += 1
        return True

    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index > 2:
            raise IndexError(index)
        return index


class NoTruth:
    def __bool__(self):
        raise ValueError("no truth")


class NoEquality:
    __hash__ = None

    def __eq__(self, other):
        raise ValueError("no equality")


class NoText:
    def __repr__(self):
        raise ValueError("no text")


class NoAttributes:
    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")


class Number(int):
    pass


class Text(str):
    pass


class Items(list):
    pass


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


Pair = collections.namedtuple("Pair", "first second")


def quietly(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def read_only():
    values = numpy.ones((2, 3), dtype=numpy.float32)
    values.setflags(write=False)
    return values


def inside_itself():
    items = []
    items.append(items)
    return items


def deep():
    value = torch.ones(3)
    for _ in range(60):
        value = [value]
    return value


def made_in_inference_mode():
    with torch.inference_mode():
        return torch.ones(2, 3)


def quantized():
    return quietly(lambda: torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8))


def nested():
    return quietly(lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)]))


KINDS = {
    "tensors": {
        "leaf": lambda: torch.ones(2, 3, requires_grad=True),
        "not a leaf": lambda: torch.ones(2, 3, requires_grad=True) * 1,
        "inference": made_in_inference_mode,
        "parameter": lambda: nn.Parameter(torch.ones(2, 3)),
        "uninitialized": nn.UninitializedParameter,
        "no rows": lambda: torch.ones(0, 3),
        "no columns": lambda: torch.ones(2, 0),
        "scalar": lambda: torch.tensor(1.5),
        "nan": lambda: torch.full((2, 3), math.nan),
        "infinite": lambda: torch.full((2, 3), -math.inf),
        "rank 30": lambda: torch.ones([1] * 30 + [3]),
        "rank 60": lambda: torch.ones([1] * 60),
        "expanded": lambda: torch.ones(1).expand(2, 3),
        "overlapping": lambda: torch.ones(9).as_strided((2, 3), (1, 1)),
        "transposed": lambda: torch.ones(3, 2).t(),
        "double": lambda: torch.ones(2, 3).double(),
        "half": lambda: torch.ones(2, 3).half(),
        "float8": lambda: torch.ones(2, 3).to(torch.float8_e4m3fn),
        "integers": lambda: torch.ones(2, 3).long(),
        "booleans": lambda: torch.ones(2, 3).bool(),
    },
    "odd tensors": {
        "complex": lambda: torch.ones(2, 3, dtype=torch.complex64),
        "conjugate": lambda: (torch.ones(2, 3, dtype=torch.complex64) * 1j).conj(),
        "negated": lambda: torch.ones(2, 3, dtype=torch.complex64).conj().imag,
        "meta": lambda: torch.ones(2, 3, device="meta"),
        "sparse": lambda: torch.eye(2, 3).to_sparse(),
        "sparse leaf": lambda: torch.eye(2, 3).to_sparse().requires_grad_(),
        "compressed": lambda: quietly(torch.eye(2, 3).to_sparse_csr),
        "quantized": quantized,
        "nested": nested,
        "subclass": lambda: torch.ones(2, 3).as_subclass(Labelled),
        "watched": lambda: torch.ones(2, 3).as_subclass(Watched),
        "imitation": Imitation,
        "read-only array": read_only,
        "tensor of a read-only array": lambda: quietly(lambda: torch.from_numpy(read_only())),
        "array": lambda: numpy.ones((2, 3)),
        "array of objects": lambda: numpy.array([1, None, "a"], dtype=object),
        "masked array": lambda: numpy.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),
        "number of numpy": lambda: numpy.float64(2.5),
        "integer of numpy": lambda: numpy.int64(3),
        "truth of numpy": lambda: numpy.bool_(True),
    },
    "numbers and texts": {
        "none": lambda: None,
        "three": lambda: 3,
        "huge": lambda: 10**400,
        "minus one": lambda: -1,
        "beyond 64 bits": lambda: 2**63,
        "float": lambda: 2.5,
        "not a number": lambda: math.nan,
        "minus zero": lambda: -0.0,
        "complex": lambda: 1 + 2j,
        "true": lambda: True,
        "text": lambda: "hello",
        "half a character": lambda: "\udc80",
        "bytes": lambda: b"ab",
        "bytearray": lambda: bytearray(b"abc"),
        "decimal": lambda: decimal.Decimal("1.5"),
        "enum": lambda: Colour.RED,
        "integer enum": lambda: Level.LOW,
        "number class": lambda: Number(3),
        "text class": lambda: Text("x"),
        "dtype": lambda: torch.float64,
        "device": lambda: torch.device("cpu"),
        "ellipsis": lambda: ...,
    },
    "containers": {
        "list": lambda: [torch.ones(2, 3), torch.ones(2, 3)],
        "same twice": lambda: [torch.ones(3)] * 3,
        "tuple": lambda: (torch.ones(2, 3), 1),
        "dict": lambda: {"a": torch.ones(2, 3)},
        "odd keys": lambda: {1: 2, (1, 2): torch.ones(3), None: 3},
        "empty list": list,
        "empty dict": dict,
        "empty tuple": tuple,
        "set": lambda: {1, 2},
        "inside itself": inside_itself,
        "deep": deep,
        "mixed": lambda: [1, "a", None, torch.ones(2), [2.5]],
        "numbers": lambda: [1.0, 2.0, 3.0],
        "list class": lambda: Items([1, 2, 3]),
        "named tuple": lambda: Pair(torch.ones(3), 2),
        "deque": lambda: collections.deque([1, 2]),
        "ordered": lambda: collections.OrderedDict(a=torch.ones(3)),
        "with a default": lambda: collections.defaultdict(list),
        "size": lambda: torch.Size([2, 3]),
        "range": lambda: range(3),
        "slice": lambda: slice(0, 2),
        "iterator": lambda: iter([1, 2, 3]),
        "generator": lambda: (i for i in range(3)),
        "packed array": lambda: array.array("f", [1, 2, 3]),
    },
    "objects": {
        "plain": object,
        "counting": Counting,
        "no truth": NoTruth,
        "no equality": NoEquality,
        "no text": NoText,
        "no attributes": NoAttributes,
        "lambda": lambda: lambda x: x,
        "builtin": lambda: len,
        "class": lambda: int,
        "module of Python": lambda: math,
        "torch function": lambda: torch.relu,
        "partial": lambda: functools.partial(torch.add, other=1),
        "linear": lambda: nn.Linear(3, 3),
        "identity": nn.Identity,
        "parameter list": lambda: nn.ParameterList([torch.ones(3)]),
        "random generator": torch.Generator,
        "storage": lambda: torch.ones(3).untyped_storage(),
        "exception": lambda: ValueError("x"),
    },
}
