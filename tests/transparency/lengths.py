"""Loops over lists and tuples of the caller's whose lengths, and late in the program the types of their items, vary."""

import torch

from . import program


def lengths(function, make, counts=(3, 3, 4, 1, 5, 5, 2, 0, 7, 12, 3)):
    return function, [make(n) for n in counts]


@program()
def numbers_of_a_tuple():
    def f(x, numbers):
        for n in numbers:
            x = x + n
        return x

    return lengths(f, lambda n: (torch.ones(2), tuple(range(n))))


@program()
def numbers_that_become_floats_tensors_and_text():
    def f(x, numbers):
        for n in numbers:
            x = x + n
        return x

    function, steps = lengths(f, lambda n: (torch.ones(2), list(range(n))))
    kinds = ([1, 2.5], [1.5, 2.5], [True, 2], [1, torch.ones(2)], [torch.ones(2)] * 3, [1, None], ["text"], [[1], 2])

    def attempt(items):
        def step(g):
            try:
                return g(torch.ones(2), items)
            except TypeError as error:
                return type(error).__name__

        return step

    return function, [*steps, *(attempt(items) for items in kinds), *steps]


@program()
def a_loop_that_ends_early():
    def f(x, numbers):
        for n in numbers:
            if n > 6:
                break
            if n % 2:
                continue
            x = x * n + 1
        else:
            x = x - 1
        return x

    return lengths(f, lambda n: (torch.ones(2), tuple(range(n))))


@program()
def numbered_and_paired():
    def f(x, numbers, others):
        for i, n in enumerate(numbers):
            x = x + n * i
        for n, other in zip(numbers, others):
            x = x + n * other
        return x

    return lengths(f, lambda n: (torch.ones(2), tuple(range(n)), [0.5] * (n // 2 + 1)))


@program()
def names_that_choose_an_operation():
    def f(x, names):
        for name in names:
            if name == "relu":
                x = torch.relu(x)
            elif name == "negate":
                x = -x
            else:
                x = x + len(name)
        return x

    return lengths(f, lambda n: (torch.ones(2), [("relu", "negate", "other")[i % 3] for i in range(n)]))


@program()
def the_list_itself_changes_afterwards():
    def f(x, numbers):
        for n in numbers:
            x = x + n
            last = n
        numbers.append(last)
        return x * len(numbers)

    return lengths(f, lambda n: (torch.ones(2), list(range(n + 1))))


@program()
def the_list_changes_while_it_is_iterated():
    def f(x, numbers):
        for n in numbers:
            x = x + n
            if len(numbers) < 6:
                numbers.append(n + 1)
        return x

    return lengths(f, lambda n: (torch.ones(2), list(range(n))))


@program()
def the_same_list_twice():
    def f(x, numbers, others):
        for n in numbers:
            for m in others:
                x = x + n * m
        others.append(1)
        return x + len(numbers)

    def make(n):
        numbers = list(range(n))
        return torch.ones(2), numbers, numbers if n % 2 else list(range(n))

    return lengths(f, make)


@program()
def indices_into_a_list_of_tensors():
    def f(tensors, indices):
        y = tensors[0]
        for i in indices:
            y = y + tensors[i]
            tensors[i].add_(1)
        return y

    return lengths(f, lambda n: ([torch.full((2,), float(i)) for i in range(5)], tuple(i % 5 for i in range(n))))
