"""Runtime: from a chain to a Python function that can be called.

Comes in:  ``ir.Chain``, verified and through the passes.
Goes out:  emitted Python source, with the user's lines as comments, compiled into the entry ``run``: it returns the
           result of the call, or MISS where a guard did not hold and nothing was done.
Requires:  every point of failure before the first write; where a write comes earlier, a ``save`` before it.
Never:     swallows an error: what the segment did is undone (state, random generators) and the eager form runs.

Files in reading order:
    writer       lines of source, names of values, objects under readable names
    predicates   asserts as inline expressions
    gradients    gradients of leaves dropped and computed, with what a rollback needs
    numbers      numbers beside tensors, made tensors beforehand
    truths       comparisons of which only the truth is asked
    forms        how each op is written, without control flow
    blocks       the straight-line runs of pure tensor operations
    kernels      blocks as compiled code for one class of inputs, a chapter of its own
    backends     how a block is executed, a chapter of its own
    regions      how a graph is written: nodes, blocks, nested suites
    whole_steps  how a training step is written that kernels may do as a whole
    rng          who draws random numbers, and how they are given back
    transaction  undo log, deferred effects, rollback
    recovery     how a call that was rolled back is finished
    lines        emitted code under the user's own lines
    emit         the whole chain as one Python function
    compiler     kernels made by another process, a chapter of its own
    optimizers   what stands around a backward pass, a chapter of its own
    audit        which guards a call does not meet
    interpreter  the same without emitting, node by node: the oracle of the tests
"""
