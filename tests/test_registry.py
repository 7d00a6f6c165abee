"""The one table type: a second entry is refused, and what is missing is known."""

import pytest

from janusc.registry import Registry


def filled():
    table = Registry("shapes")
    table.register("circle", 1)
    table.register("square", 2)
    return table


def test_register_returns_the_entry():
    entry = object()
    assert Registry("shapes").register("circle", entry) is entry


def test_a_second_entry_is_refused_and_the_first_one_stays():
    table = filled()
    with pytest.raises(KeyError, match=r"shapes: 'circle' is registered already"):
        table.register("circle", 3)
    assert table["circle"] == 1


def test_missing_keeps_the_order_asked_in():
    assert filled().missing(["line", "square", "arc", "circle"]) == ["line", "arc"]
    assert filled().missing([]) == []


def test_it_reads_as_a_mapping_in_order_of_registration():
    table = filled()
    assert list(table.items()) == [("circle", 1), ("square", 2)]
    assert len(table) == 2
    assert "arc" not in table
    assert table.get("arc") is None
    with pytest.raises(KeyError):
        table["arc"]


def test_it_offers_no_way_to_change_an_entry():
    with pytest.raises(TypeError):
        filled()["circle"] = 3


def test_the_ops_are_a_table_with_agreeing_names():
    from janusc.lowering.ops import OPS

    assert len(OPS) > 20
    assert all(name == op.name and op.summary for name, op in OPS.items())
