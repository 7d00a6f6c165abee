"""What generated modules have in common: imports and small definitions, of which each has those it names."""

from __future__ import annotations

import re

from . import definitions

HEAD = """\
import math
import os
import random
import sys
import time
import warnings
import functools
import logging
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial, reduce
from io import StringIO
import numpy
import torch
from torch import nn
from torch.nn import functional as F
import janusc
from janusc.testing import Call

LOG = []
SEEN = []
COUNT = 0
SCALE = 1.5
MODE = True
LAST = torch.zeros(4)
TABLE = {"a": torch.ones(4), "b": torch.arange(4.0)}
WEIGHT = torch.linspace(-1, 1, 16).reshape(4, 4)


def T(rows=3, scale=1.0, shift=0.25, dtype=torch.float32, grad=False):
    values = torch.linspace(-1, 1, rows * 4).reshape(rows, 4) * scale + shift
    return values.to(dtype).requires_grad_(grad)


def R(scale=1.0):
    return torch.tensor([0.5, -1.0, 2.0, 0.25]) * scale
"""

# classes that the writer adds a method to
BOX = """\
class Box:
    rank = 2
    factor = 0.5
    shared = torch.ones(4)
    table = {'a': torch.arange(4.0)}
    made = []

    def __init__(self):
        self.count = 0
        self.rate = 0.5
        self.total = torch.zeros(4)
        self.last = None
        self.items = [torch.ones(4)]
        self.stream = iter(())

    def ranked(self, v):
        return v * self.rank

    @classmethod
    def named(cls, v):
        cls.rank += 1
        return v + cls.factor

"""
MAIN = """\
class Main(%s):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.acc = torch.zeros(4)
        self.cache = None
        self.n = 0
        self.history = []
        self.table = {}

    @property
    def twice(self):
        return self.n * 2

    def mix(self, v, a=0.5):
        self.n += 1
        return v * a + self.acc

"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.25))
        self.bn = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Tanh()])
        self.heads = nn.ModuleDict({'a': nn.Linear(4, 4), 'b': nn.Identity()})
        self.frozen = nn.ReLU()
        self.register_buffer('acc', torch.zeros(4))
        self.steps = 0

    def stack(self, v):
        for layer in self.layers:
            v = layer(v)
        return v

"""

# by name; a later one may need an earlier one
DEFINITIONS = {
    "Pair": 'Pair = namedtuple("Pair", "row low")\n',
    "PAIR": "PAIR = Pair(torch.ones(4), 0.75)\n",
    "Manager": """\
class Manager:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        LOG.append(self.name)
        return LOG

    def __exit__(self, kind, error, trace):
        LOG.append(kind and kind.__name__)
        return kind is ValueError
""",
    "Item": """\
class Item:
    made = 0

    def __init__(self, rate):
        self.rate = rate
        self.row = torch.ones(4)
        self.rows = [torch.ones(4), torch.zeros(4)]
        Item.made += 1

    @property
    def double(self):
        return len(self.rows) * 2

    @double.setter
    def double(self, value):
        self.rows = self.rows[:1] + [torch.full((4,), float(value))]

    @classmethod
    def make(cls, v):
        return v * cls.made

    @staticmethod
    def half(v):
        return v / 2

    def scale(self, v):
        self.rate += 0.5
        return self.half(v) * self.rate

    def __call__(self, v, n=1):
        return v + self.row * n

    def __add__(self, v):
        return v + self.rate

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def __setitem__(self, index, row):
        self.rows[index] = row

    def __delitem__(self, index):
        del self.rows[index]
""",
    "Child": """\
class Child(Item):
    def __init__(self, rate):
        super().__init__(rate)
        self.rows.append(self.row * rate)

    def scale(self, v):
        return super().scale(v) + self.rows[-1]
""",
    "Point": """\
@dataclass
class Point:
    v: torch.Tensor
    n: int = 1

    def shifted(self):
        return self.v + self.n
""",
    "ITEM": "ITEM = Item(0.5)\n",
    "TREE": "TREE = (torch.ones(4), (None, (torch.arange(4.0), None)))\n",
    "ACTIONS": "ACTIONS = [torch.relu, torch.neg]\n",
    "walk": """\
def walk(tree, depth=5):
    if tree is None or depth < 0:
        return torch.zeros(4)
    if isinstance(tree, torch.Tensor):
        return tree * 2
    left, right = tree
    return torch.tanh(walk(left, depth - 1) + walk(right, depth - 1))
""",
    "size": """\
def size(tree):
    if isinstance(tree, tuple):
        return sum(size(t) for t in tree)
    return 0 if tree is None else 1
""",
    "tick": """\
@janusc.opaque
def tick(n=1):
    global COUNT, SCALE
    COUNT += n
    SCALE = SCALE / 2
    LOG.append(COUNT)
    return COUNT
""",
    "swap": """\
@janusc.opaque
def swap(r):
    global LAST, MODE
    LAST, MODE = r, not MODE
    TABLE['a'] = r * 2
    return r + 1
""",
    "stir": """\
@janusc.opaque
def stir(v, row=0):
    v[row] += 1
    return v.sum()
""",
    "poke": """\
@janusc.opaque
def poke(n=1):
    BOX.count += n
    BOX.items = BOX.items[-2:] + [BOX.total * n]
    BOX.last = BOX.total
    BOX.total = BOX.total + n
    return BOX.count
""",
    "seen": """\
def seen(*args):
    SEEN[:] = args
    return args
""",
    "under": """\
def under(context, function, *args):
    SEEN[:] = args
    with context:
        return function(*args)
""",
    "apply": """\
def apply(function, *args):
    return function(*args)
""",
}


def prelude(body: str) -> str:
    """The head of a module with this body, and the definitions that it needs."""
    needed: list[str] = []
    known = {**DEFINITIONS, **definitions.DEFINITIONS}
    for name in reversed(known):
        if re.search(rf"\b{name}\b(?!\(self)", "\n".join([body, *needed])):
            needed.insert(0, known[name])
    return "\n\n".join([HEAD, *needed, ""])
