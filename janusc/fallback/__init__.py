"""Fallback: when a graph may run, and what happens when it may not.

Comes in:  a user's call, the specialisations made so far, and the profile.
Goes out:  the result of that call, exactly as eager would have given it; and facts for the profile where an assumption
           failed.
Requires:  guards that read without side effects, never through a user's ``__eq__`` or ``__hash__``.
Never:     runs an effect twice, shows an error of ours to the user outside strict mode, keeps the user's objects alive.

Files in reading order:
    eager    when a call must be plain Python
    policy   rules of thumb as pure functions: what to evict, when to try again
    budget   what a function may spend on its graphs
    places   from sites and emitted code back to the user's lines
    generalise  what is given up so that one specialisation takes many kinds of calls
    variant  one specialisation in use, and its counters
    converter  who makes specialisations, as the state machine knows them
    faults   errors of a conversion, and what is said of them
    notes    what went wrong, for the user to read
    sharers  the functions and modules that one state serves
    trial    a new specialisation beside ordinary calls, by the clock
    roster   which specialisations are asked, in which order, and which rest
    call     the state machine of a function's calls
    wrapper  what is called instead of the user's function
    callees  functions that ordinary Python in a graph calls, with graphs of their own
    cache    the wrappers that users hold, and the way from them to their state
    binding  the forward of one module, and what copies of the module get of it
    report   what was done, and why, as text
"""
