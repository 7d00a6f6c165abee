"""Type inference: what was seen in ordinary calls, and what may be assumed from it.

Comes in:  ``ParsedFunction``, and the first few calls, which run eagerly with recording woven in.
Goes out:  ``Profile``: per site the join of all types seen, the branches taken, the trip counts, and the refuted sites.
Requires:  instrumented code that behaves as the user's own to the last side effect: a profiled call is the call.
Never:     goes down the lattice, forgets a refutation, holds a tensor or any other object of the user's.

A profile only climbs a lattice of finite height, so the number of conversions of a function is bounded.

Files in reading order:
    profile      the record itself, and the questions that may be put to it
    observe      the probes that fill it and hand on what they were given
    extent       how many lines calls run through, and in which loops
    instrument   the ordinary eager call with the probes woven in
    callees      what kind of thing is called: inlined, one op, or opaque
    torch_table  what torch's functions do beside computing
    transfer     the type of an op, by running it on stand-ins for its arguments
"""
