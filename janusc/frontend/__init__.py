"""Front end: from a Python function to one tidy tree.

Comes in:  a function object as the user wrote it.
Goes out:  ``ParsedFunction``: the user's own tree beside the desugared one, with names and positions; and ``Template``:
           code made from such a tree, to be bound to the function's globals and closure cells.
Requires:  source text that compiles to the bytecode at hand; nothing is guessed from a file that has changed.
Never:     calls or imports user code, looks at an argument, keeps a function alive, raises anything but ``Refusal``.

Files in reading order:
    margins    where a top-level statement begins and ends, without parsing the file
    capture    find the source of a function and prove that it is its source
    language   the table: every AST node kind and how it is treated
    mangle     private names of a class, as the compiler would write them
    names      which names statements load, store and delete
    liveness   which locals a statement reads and leaves behind
    nodes      every node of a tree
    duplicate  copies of trees
    desugar    fewer statement and expression kinds, same meaning
    jumps      break, continue and early return as flags and ifs
    parse      all of the above, once per code object
    translate  a tree as Python compiles it, with what is put in on the way
    build      a tree back into a function that passes for the user's own
    iteration  the iterator of a loop that runs in parts
    modes      the grad mode of a block that runs in parts
    outline    a range of statements as a function of its live-ins
    loop_parts a loop taken apart, to run in parts
"""
