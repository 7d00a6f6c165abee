"""Updates: the step of an optimizer as one kernel, which changes parameters and state where they are.

Comes in:  an optimizer of torch's that makes its ordinary step, and gradients.
Goes out:  parameters and state as that step leaves them, but for rounding: the kernel is made of torch's formulas,
           with numbers that are computed as torch does and may change from step to step. Autograd knows that they have
           changed, but not how often torch's step would have changed them.
Requires:  dense parameters of one dtype on the CPU, state that is there, memory that does not overlap.
Never:     makes half a step: whatever is not as it was when the kernel was asked for is seen before, and is left to
           torch's own step. What is structure (which gradients there are, a decay or none) has kernels of its own, a
           handful at most.

Files in reading order:
    rules    what each optimizer does with a parameter
    layout   one class of input of a step, and the graph of its kernel
    survey   from an optimizer to its layout: the slow look
    memory   where tensors are, and that they do not overlap
    binding  from an optimizer to a call of its kernel: the quick look
    fused    the steps of one optimizer
    places   statements in emitted code that make them
"""
