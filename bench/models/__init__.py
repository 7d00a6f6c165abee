"""Programs that the benchmarks run; models that the demonstration trains come from ``janusc.demo.models``."""
