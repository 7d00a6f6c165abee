"""The straight-line runs of tensor ops, and what enters and leaves them."""

from sketch import INT, TENSOR, Sketch

from janusc.runtime.blocks import partition


def test_blocks_end_at_host_values_and_effects():
    sketch = Sketch(TENSOR)
    (x,) = sketch.params
    a = sketch("torch", "torch.relu", x, out=(TENSOR,))
    b = sketch("operator", "add", a, x, out=(TENSOR,))
    size = sketch("attribute", "shape", b, out=(INT,))
    alone = sketch("method", "exp", b, out=(TENSOR,))
    sketch("method.write", "add_", alone, 1, out=())
    c = sketch("operator", "mul", alone, size, out=(TENSOR,))
    d = sketch("operator", "mul", c, b, out=(TENSOR,))
    e = sketch("operator", "mul", c, d, out=(TENSOR,))
    blocks = partition(sketch.graph(d, e))
    assert [(b.start, b.stop) for b in blocks] == [(0, 2), (5, 8)]
    assert [b.inputs for b in blocks] == [(x,), (alone, size, b)]
    assert [b.outputs for b in blocks] == [(b,), (d, e)]


def test_a_graph_of_nothing_has_no_blocks():
    assert partition(Sketch().graph()) == ()


def test_a_result_nobody_reads_does_not_leave():
    sketch = Sketch(TENSOR)
    a = sketch("torch", "torch.relu", *sketch.params, out=(TENSOR,))
    sketch("torch", "torch.relu", a, out=(TENSOR,))
    (block,) = partition(sketch.graph())
    assert block.outputs == ()
