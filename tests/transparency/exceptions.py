"""Programs that raise and catch, around tensor operations and around code of their own: classes, objects, chains."""

import sys

import torch

from . import program

ONE, THREE = torch.ones(2), torch.ones(3)


class Trouble(Exception):
    def __init__(self, message, code=0):
        super().__init__(message)
        self.code = code


class Worse(Trouble):
    pass


@program()
def handler_of_a_failing_operation():
    log = []

    def f(x, y):
        log.append("start")
        try:
            z = x * 2 + y
            log.append("worked")
        except RuntimeError as error:
            log.append(type(error).__name__)
            z = x * 3
        else:
            log.append("else")
            z = z + 1
        finally:
            log.append("finally")
        return z * 2

    return f, [(ONE, ONE)] * 4 + [(ONE, THREE), (ONE, ONE), (ONE, THREE), (ONE, THREE), (ONE, ONE)], log


@program()
def handler_taken_by_every_call():
    seen = []

    def f(x, y):
        w = torch.tanh(x) * 2
        try:
            z = x + y
        except RuntimeError:
            z = y.sum() + w
            seen.append("handled")
        return z * 3 + w

    return f, [(ONE, THREE)] * 7 + [(ONE, ONE)] * 2, seen


@program()
def division_in_try():
    def f(x, n):
        try:
            k = 10 / n
        except ZeroDivisionError:
            k = 0.5
        return torch.tanh(x * k) + 1

    return f, [(ONE, n) for n in (0, 0, 0, 0, 4, 0, 5, 0)]


@program()
def division_in_try_that_fails_late():
    def f(x, n, table):
        y = torch.tanh(x) * 2
        try:
            k = 10 % n
            k += table["k"]
        except (ZeroDivisionError, KeyError) as error:
            k = len(error.args)
        else:
            k += 1
        return y * k

    return f, [(ONE, n, t) for n in (3, 4, 0, 0, 5) for t in ({"k": 1}, {}, {"k": 2})]


@program()
def cache_by_exception():
    cache = {}

    def f(x, key):
        y = torch.tanh(x)
        try:
            weight = cache[key]
        except KeyError:
            weight = cache[key] = torch.ones(2) * len(key)
        return y * weight

    return f, [(ONE, k) for k in ("a", "a", "a", "bb", "a", "bb", "ccc", "ccc")], cache


@program()
def attribute_by_exception():
    class Box:
        pass

    box = Box()

    def f(x):
        y = torch.tanh(x)
        try:
            count = box.count
        except AttributeError:
            count = box.count = 1
        box.count = count + 1
        return y * count

    def lose(f):
        del box.count
        return f(ONE)

    return f, [(ONE,)] * 5 + [lose, (ONE,), lose], box


@program()
def text_to_number():
    def f(x, text):
        try:
            value = float(text)
        except ValueError as error:
            value = float(len(str(error)))
        return torch.tanh(x) * value

    return f, [(ONE, t) for t in ("1", "2", "x", "3.5", "yy", "yy", "4")]


@program()
def custom_class_with_attributes():
    def f(x, limit):
        y = x * 2
        if y.sum() > limit:
            raise Worse(f"over {limit}", code=limit)
        return y

    return f, [(ONE, 10)] * 4 + [(ONE, 1), (ONE, 10), (ONE, 2)]


@program()
def one_exception_object_for_all():
    shared = Trouble("shared", 7)
    same = []

    def f(x, fail):
        y = torch.tanh(x)
        if fail:
            raise shared
        return y

    def step(f):
        try:
            return f(ONE, True)
        except Trouble as error:
            same.append(error is shared)
            return error.code

    return f, [(ONE, False)] * 4 + [step, (ONE, False), step, (ONE, True)], same


@program()
def chained_causes():
    def f(x, how):
        y = torch.tanh(x) * 2
        try:
            if how:
                y = y.view(7)
        except RuntimeError as error:
            if how == 1:
                raise Trouble("from", 1) from error
            if how == 2:
                raise Trouble("none", 2) from None
            if how == 3:
                raise Trouble("context", 3)  # noqa: B904
            if how == 4:
                raise
            y = y + len(error.args)
        return y

    def shown(how):
        def step(f):
            try:
                return f(ONE, how)
            except Exception as error:
                chain = [type(error).__name__]
                while error.__cause__ or error.__context__:
                    error = error.__cause__ or error.__context__
                    chain.append((type(error).__name__, str(error)))
                return chain

        return step

    return f, [(ONE, 0)] * 4 + [(ONE, how) for how in (1, 2, 3, 4, 5, 0)] + [shown(h) for h in (1, 2, 3, 4)]


@program()
def context_of_the_callers_handler():
    def f(x, n):
        y = torch.tanh(x)
        return y.view(n)

    def inside_a_handler(n):
        def step(f):
            try:
                raise KeyError("outer")
            except KeyError:
                try:
                    return f(ONE, n)
                except RuntimeError as error:
                    return type(error.__context__).__name__, error.__cause__, error.__suppress_context__

        return step

    return f, [(ONE, 2)] * 4 + [(ONE, 3), inside_a_handler(3), inside_a_handler(2), inside_a_handler(3)]


@program()
def bare_raise_of_the_callers_exception():
    def f(x, fail):
        y = torch.tanh(x)
        if fail:
            raise
        return y, sys.exc_info()[0]

    def handling(fail):
        def step(f):
            try:
                raise Trouble("callers")
            except Trouble:
                return f(ONE, fail)

        return step

    return f, [(ONE, False)] * 4 + [handling(False), handling(True), (ONE, True), (ONE, False)]
