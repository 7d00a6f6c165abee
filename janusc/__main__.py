"""The command line: ``demo`` shows the main job, ``doctor`` what this machine offers, ``cache`` the kernels kept."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence

_DEMO_MODULES = {"sklearn": "scikit-learn", "rich": "rich"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    if options.command == "demo":
        return demo(options.quick, options.threads)
    if options.command == "cache":
        return cache(options.action)
    from janusc import doctor

    return doctor.main()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m janusc", description="Run dynamic PyTorch programs as graphs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="demo|doctor|cache")
    demo = commands.add_parser("demo", help="train two models eagerly and converted, and compare them")
    demo.add_argument("--quick", action="store_true", help="a few steps only; accuracy is not asked for")
    threads = "torch's threads, for both sides (default: 1, as the models are small)"
    demo.add_argument("--threads", type=_positive, default=1, metavar="N", help=threads)
    commands.add_parser("doctor", help="print versions, compiler and GPU, and what is therefore available")
    kept = commands.add_parser("cache", help="say what compiled kernels are kept, or remove them")
    kept.add_argument("action", choices=["info", "clear"])
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def demo(quick: bool, threads: int) -> int:
    """Run the demonstration, or say in one line why it can't be run."""
    lacking = [package for module, package in _DEMO_MODULES.items() if importlib.util.find_spec(module) is None]
    if lacking:
        print(f"janusc demo needs {' and '.join(lacking)}: pip install 'janusc[demo]'", file=sys.stderr)
        return 2
    from janusc.demo.data import DataError
    from janusc.demo.report import run_demo

    try:
        return run_demo(quick, threads)
    except DataError as error:
        print(f"janusc demo: {error}", file=sys.stderr)
        return 2


def cache(action: str) -> int:
    """Say where compiled kernels are kept and what they take, or remove them; 1 where the cache is not used."""
    from janusc import doctor
    from janusc.runtime.compiler import folders

    is_there = os.path.isdir(folders.cache_path())
    found = folders.open_cache() if is_there else None
    if action == "clear" and found and found.objection is None:
        print(f"{found.path}: {folders.clear(found) / 2**20:.1f} MiB removed")
        return 0
    print(doctor.cache_line())
    return 1 if found and found.objection else 0


if __name__ == "__main__":
    sys.exit(main())
