"""The table of what torch's functions do beside computing, against what torch itself says of its operators."""

import torch

from janusc.typeinfer import torch_table


def operators(name):
    packet = getattr(torch.ops.aten, name, None)
    return [] if packet is None else [getattr(packet, overload) for overload in packet.overloads()]


def convertible():
    names, _ = torch_table._tables()
    yield from ((dotted, torch_table.last_name(dotted)) for dotted in names.values())
    yield from ((f"Tensor.{name}", name) for name in dir(torch.Tensor) if torch_table.is_tensor_method(name))


def test_what_draws_is_known_to_draw():
    silent = [
        dotted
        for dotted, name in convertible()
        for operator in operators(name)
        if torch.Tag.nondeterministic_seeded in operator.tags and not torch_table.is_random(name, {})
    ]
    assert not silent


def test_what_writes_is_known_to_write():
    silent = [
        dotted
        for dotted, name in convertible()
        for operator in operators(name)
        for argument in operator._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
        if isinstance(argument.type, torch.TensorType) and operator._overloadname != "out"
        if not argument.is_out and not name.endswith("_")
    ]
    assert not silent
