"""Lowering: from a tree and a profile to a chain of graphs.

Comes in:  ``ParsedFunction``, ``Profile``, and the arguments of the call at hand as samples (tensors by stand-ins).
Goes out:  ``ir.Chain``: segments (a graph of guards, a graph of work) and the host ranges between them.
Requires:  only what shapes the graph is folded: branches taken, trip counts, who is called; each fold under an assert.
           All else stays a run-time value, and an op names the very callable that the program would have called.
Never:     runs a user's operation on real data, changes an object that outlives the conversion, invents a dtype or
           derivative rule.

Files in reading order:
    ir              ops, values, nodes, graphs, segments, chains
    ops             the table of ops, by family
    op_rules        what a well-formed node of each op looks like
    verify          the rules of the IR, checked when the passes are through (with ``JANUSC_VERIFY=each`` after each)
    effects         what a node may do, its regions included
    printer         graphs and chains as text
    reader          the text back into graphs and chains
    rewrite         rebuilding graphs: what the passes share
    builder         the two graphs of a segment, node by node
    abstract        what is known of a value while the source is walked
    store           locals, and own writes until they reach the real objects
    namespaces      dictionaries that hold attributes or globals
    apart           objects that must not have become one, in few guards
    containers      sets, deques, counters and the like: what their methods do
    inert           fixed objects that may be computed with early
    operands        between abstract values and what stands in the graph
    codes           the diagnostics: what can keep a statement out of a graph
    worlds          the activations and iterations that the call at hand leads to
    lowering        the state of one lowering, and the dispatch over node kinds
    examples        what run-time values are in those worlds, and what all of them agree on
    kinds           what is done for each kind of a value
    members         members of enumerations that are known at run time only
    lower_stmt      statements
    assign          targets: names, unpacking, attributes, items, del
    truth           which way a test goes: certain, assumed under an assert, or neither
    cond            both ways of a branch in the graph, and what the two sides leave joined
    branch          if, conditional expressions, and, or, assert
    conditional_step  the step of an optimizer under a condition
    iterate         what a loop or a star runs over
    profiled        kinds that only the profile knows
    loop_node       a loop kept as a loop: what its body changes is carried
    loops           loops, unrolled or kept
    extent          how many lines a conversion will go through
    lower_expr      expressions
    comprehension   comprehensions, as the loops they stand for
    lower_operator  operators, and subscripts
    lower_compare   comparisons
    membership      what is in a container
    keys            keys of dictionaries that are known at run time only
    classes         what is found on classes, and the guards that it stays so
    lower_attr      attribute access, after Python's own lookup order
    lower_object    attributes of objects that are known at run time only
    lower_instance  objects of the user's classes that are made in the call
    lower_state     names and items: guarded reads, own writes, the commit
    mutation        changes in place, behind what rollback needs
    own_calls       the calls by which a function calls itself
    routine         functions that call themselves: defined once, invoked by name
    lower_call      calls: what is inlined, what is one op, what is opaque
    lower_builtin   builtin functions and classes
    lower_layer     layers of torch: converted, or called as they are
    lower_random    Python's own generator
    order           sorting, and choosing by a key
    introspection   isinstance, type, callable, getattr and hasattr
    lower_torch     torch functions
    lower_autograd  gradients taken inside the graph
    lower_optimizer  what stands around a backward pass: optimizers, clipping
    parts           module containers: their parts, slices of them, and calls of such slices
    lower_method    methods of tensors, host values and containers
    lower_container sets, deques, counters and the like, as real objects
    lower_match     match statements, decided by what the subject is
    run_time_match  cases that are tried at run time
    split           an opaque call taken out of its statement, so that the rest of it can be converted
    live_ins        what a segment knows of its locals after ordinary Python has run
    worth           whether a transaction is worth being a graph
    agenda          where segments start, and what has to be outlined
    parameters      the parameters of the function that is converted
    segments        the walk over the statements: segments, and the host ranges between them
    open_loops      loops that ordinary Python keeps out of a graph, as loops of steps
    open_blocks     blocks under a grad mode that ordinary Python keeps out of a graph, as steps
    lower           the whole way: from a function and a call to a chain
    passes          graph to graph, a chapter of its own
"""
