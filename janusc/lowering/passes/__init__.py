"""Passes: graphs made smaller and safer, one named step at a time.

Comes in:  an ``ir.Segment`` that verifies.
Goes out:  an ``ir.Segment`` that verifies and means the same, bit for bit.
Requires:  the effects declared in ``ops`` and judged in ``effects``: a pass moves, merges or drops a node only
           where its effect allows it. Each single rewrite takes one unit of fuel first.
Never:     looks at user objects, changes a node in place, depends on the order of a set or on object addresses.

Files in reading order:
    pipeline        the passes in their order, and running them
    constants       what an assert says is a literal is one from there on
    folding         host arithmetic on literals, asserts that hold by themselves
    subexpressions  what is computed twice is computed once
    implied_asserts asserts on types go where others say more
    hoist_asserts   asserts before what would have to be undone, cheap guards first
    dead_code       what nobody uses goes
    prune_saves     undo copies that no failure can need go
    early_gradients a backward pass right behind its loss
    truths          comparisons that only decide need no tensor
"""
