"""Backends: ways to execute a block, a straight run of tensor operations without control flow.

Comes in:  the nodes of a block, with the values that enter and leave it.
Goes out:  something to be called with the values that enter, which may leave a call to the nodes themselves.
Requires:  pure nodes, or writes that the transaction around the block knows how to undo.
Never:     changes a result: ``aten`` is bit-equal to eager by calling the very same torch functions; a fusing backend
           differs by the rounding of reordered sums.

Files in reading order:
    base  what a backend is, and the table of them
    aten  the exact backend: the very torch calls of the program, inline
    compiled  kernels, by torch's own compiler or one of the user's
"""
