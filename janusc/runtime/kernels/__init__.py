"""Kernels: blocks, and steps of optimizers, as code that torch's kernel compiler makes for one class of inputs.

Comes in:  a block as a graph of its own, and at run time its inputs.
Goes out:  its outputs; where it writes, the new contents of what is written, and where a backward pass ends it, the
           gradients of the leaves: nothing else is changed, and the undo log knows of it. Where its history goes on,
           its outputs have one, in which a kernel computes gradients.
Requires:  that the transaction around can still be rolled back.
Never:     takes inputs of another class than those it was traced with: shapes, strides, dtypes, devices, what requires
           gradients, and the state of torch that decides what its operations do.

Files in reading order:
    classes  the class of inputs a kernel is for, as something to ask at each call
    extent   how far a kernel reaches in a graph
    autocasts  what is set of autocast around a block, and what it keeps
    joint    a block as a traced graph, with the backward pass that ends it
    kept     what a history keeps in eager mode
    linked   a block whose history goes on, with a backward pass from its outputs
    cut      the graph of both, in two
    pools    relus behind pools, where there is less to do
    demands  what operations demand of the contents of tensors
    draws    random numbers, drawn before a kernel
    functional  writes in a traced graph as values
    intervals  between which numbers indices are, whatever the inputs
    bounds   indices kept in bounds, and divisors from zero
    faithful  what the kernel compiler computes otherwise
    bare     values whose history nobody can see
    history  which values of a block may have a history
    spent    tensors whose history was used up by that backward pass
    carried  a block as text for the compiler process
    makers   who makes a kernel: this process, or the compiler process
    methods  what is asked of tensors by name, where a program may have put its own
    kernel   a kernel as it is called
    replay   the operations of a block, to be differentiated
    node     what stands for a block in a history
    linking  a kernel as it is called whose history goes on
    recorder  what records work on a device
    captured  a kernel whose work is recorded
    check    a kernel's results beside those of its operations
    linked_check  its gradients, too, where they are computed later
    site     a block in emitted code: the kernels it has, and the making of one more
    measured  a block that has a kernel when it is called often and the kernel is faster
    capturing  a block that has recorded kernels
    whole    a block and a step of an optimizer, where both have kernels
    updates  the step of an optimizer as one kernel, a chapter of its own
"""
