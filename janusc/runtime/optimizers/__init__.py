"""Optimizers: what stands around a backward pass, done with little Python.

Comes in:  a function of torch's that ordinary Python is about to call: the ``step`` or ``zero_grad`` of an optimizer,
           or one that clips gradients.
Goes out:  what to call instead: the same, or its equivalent here, which leaves behind the same bits.
Requires:  plain parameters on the CPU, where torch's own way is a loop in Python over the very operations that are
           made here for many tensors in one call.
Never:     takes the place of a function where anything could tell: hooks, profilers, modes, subclasses, options that
           lead elsewhere, state that is not as torch makes it, tensors that overlap, whatever would be an error. In
           any doubt torch's own function is called, before anything was touched.

Files in reading order:
    equivalents  the table, by torch's own function
    conditions   when nothing can tell an equivalent from the original
    batches      parameters of one kind with their gradients and state
    plans        what the last step has found, for the next
    steps        how a step is prepared, and then made
    sgd          SGD
    adam         Adam and AdamW
    rmsprop      RMSprop
    adagrad      Adagrad
    backwards    the backward pass from a loss
    gradients    gradients dropped or set to zero
    clipping     gradients clipped
    lookup       from what is about to be called to what to call instead
"""
