"""The demonstration: two real models trained eagerly and under ``janus.compile``, step by step in one process.

Comes in: scanned digits that ship with scikit-learn, and the text of Python's own standard library.
Goes out: one table and an exit status, zero only where every loss was equal bit for bit, the digits were learned
and the models ran in a graph.
Requires: the packages of the extra ``janusc[demo]``.
Never: a warning filter, a network, or a model that was rewritten to please the converter.
Reading order: ``models`` (the user's ordinary code), ``data``, ``training`` (both sides, alternately), ``report``.
"""
