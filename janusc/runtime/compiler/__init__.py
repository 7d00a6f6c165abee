"""Compiler: kernels for straight tensor code, made in another process while the program runs.

Comes in:  a ``Program``: the source of a function of tensors, or a graph from ``torch_private.compiling.trace``, with
           what its inputs look like.
Goes out:  a kernel: a function of the list of its inputs, which it empties, to be called with gradients disabled.
Requires:  a C++ compiler, and sizes, strides, dtypes and devices of the inputs as they were told, at each call.
Never:     imports torch's kernel compiler into this process, runs threads in it, or lets it wait unasked.

A compiler process is started by the first request that the cache can't answer. It is no child that a program could
wait for, it ends when it is idle or when this process does, and it alone traces and compiles: what it hands over is a
folder with shared objects and the source that calls them, checked by their digests and loaded within milliseconds. A
job moves on when somebody asks for its kernel.

Files in reading order:
    program     what is to be compiled, and its key
    folders     where kernels are kept, and whether others could write there
    entries     kernels on disk: written at once, checked when read, the oldest dropped
    settings    what of torch's state a kernel depends on
    loading     from an entry to a kernel, without torch's kernel compiler
    merged      the C++ of a kernel as one file
    scratch     buffers that a kernel keeps
    products    products of matrices that are fused with what is around them
    convolutions  convolutions of one channel as sums, too
    portable    from what torch's kernel compiler wrote to an entry
    complaints  what went wrong, in a line
    headers     precompiled headers, kept
    worker      the compiler process
    connection  this process's end of it: started, asked, ended
    jobs        requests, one at a time, and what comes of them
"""
