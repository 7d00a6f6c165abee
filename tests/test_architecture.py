"""The shape of the code: sizes, names, duplicates, chapters, one door to torch's private parts.

Each check is a function from a folder or a text to a list of complaints, so that it can be tried on bad samples too.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "janusc"
CODE = ("janusc", "tests", "bench")
TEXTS = ("*.md", "*.cfg", "*.toml", "Makefile", "constraints.txt", ".gitignore", ".ci/run")

FILE_LINES = 500
FUNCTION_LINES = 60
DUPLICATE_LINES = 8
DOCUMENTED = 0.70

VAGUE_NAMES = {"util", "utils", "helper", "helpers", "misc", "common"}
CHAPTER = ("Comes in:", "Goes out:", "Requires:", "Never:", "Files in reading order:")
# Where torch keeps what may change without notice, beside every name with an underscore.
PRIVATE_TORCH = ("torch.fx.experimental",)
PRIVATE_DOOR = "torch_private"
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:home|root|tmp|work|opt|Users)/"),
    "a web address": re.compile(r"https?:/[/]"),
    "unfinished work": re.compile(r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b"),
    "a reference to outside the project": re.compile(r"\.\./[\w]"),
}


def python_files(folder):
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def all_code():
    return [path for name in CODE for path in python_files(ROOT / name)]


def parse(path):
    return ast.parse(path.read_text(), filename=str(path))


# sizes


def long_files(paths):
    return [f"{path}: {count} lines" for path in paths if (count := len(path.read_text().splitlines())) >= FILE_LINES]


def long_functions(path):
    return [
        f"{path}:{node.lineno}: {node.name} has {count} lines"
        for node in ast.walk(parse(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (count := node.end_lineno - node.lineno + 1) >= FUNCTION_LINES
    ]


def test_files_are_short():
    assert not long_files(all_code())


def test_functions_are_short():
    assert not [complaint for path in all_code() for complaint in long_functions(path)]


def test_a_long_file_and_a_long_function_are_found(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("def f():\n" + "    pass\n" * (FUNCTION_LINES - 2))
    assert not long_functions(path)
    path.write_text("def f():\n" + "    pass\n" * (FUNCTION_LINES - 1))
    assert len(long_functions(path)) == 1
    assert not long_files([path])
    path.write_text("pass\n" * FILE_LINES)
    assert len(long_files([path])) == 1


# duplicates


def telling_lines(path):
    """(line number, stripped text) of the lines that count.

    Not counted are blanks, comments, imports, docstrings and lone brackets, nor overloads, which repeat a signature by
    nature.
    """
    tree = parse(path)
    ignored = set()
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        is_overload = any(ast.unparse(mark).endswith("overload") for mark in getattr(node, "decorator_list", ()))
        if is_text or is_overload or isinstance(node, (ast.Import, ast.ImportFrom)):
            ignored.update(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(path.read_text().splitlines(), start=1)
    return [
        (number, line)
        for number, text in lines
        if number not in ignored and (line := text.strip()) and not line.startswith("#") and line.strip("()[]{},:")
    ]


def duplicates(paths):
    """Runs of DUPLICATE_LINES telling lines that occur twice; each pair of places is told once, at its start."""
    places = defaultdict(list)
    for path in paths:
        lines = telling_lines(path)
        for start in range(len(lines) - DUPLICATE_LINES + 1):
            run = lines[start : start + DUPLICATE_LINES]
            places[tuple(text for _, text in run)].append((path, start, run[0][0]))
    found, known = [], set()
    for first, *others in places.values():
        for other in others:
            same_file_overlap = other[0] == first[0] and other[1] - first[1] < DUPLICATE_LINES
            pair = (first[0], other[0], other[1] - first[1])
            if not same_file_overlap and pair not in known:
                known.add(pair)
                found.append(f"{first[0]}:{first[2]} and {other[0]}:{other[2]}")
    return found


def test_no_code_is_there_twice():
    assert not duplicates(python_files(PACKAGE))


def test_a_duplicate_is_found_whatever_its_indentation_and_comments(tmp_path):
    body = [f"x{n} = call({n})" for n in range(DUPLICATE_LINES)]
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("\n".join(body))
    two.write_text("def f():\n" + "\n".join(f"    {line}\n    # a remark\n" for line in body))
    assert duplicates([one, two]) == [f"{one}:1 and {two}:2"]
    two.write_text("\n".join(body[:-1]))
    assert not duplicates([one, two])
    one.write_text("\n".join([*body, "y = 1", *body]))
    assert len(duplicates([one])) == 1


# names and words


def vague_names(paths):
    return [str(path) for path in paths if path.stem in VAGUE_NAMES or VAGUE_NAMES & set(path.parent.parts[-1:])]


def forbidden_words(text):
    return [
        f"line {number}: {what}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]


def test_no_module_has_a_name_that_says_nothing():
    assert not vague_names(all_code())
    assert vague_names([Path("a/utils.py"), Path("a/helpers/x.py"), Path("a/b.py")]) == ["a/utils.py", "a/helpers/x.py"]


def test_no_forbidden_words():
    paths = all_code() + [path for pattern in TEXTS for path in ROOT.glob(pattern)]
    assert len(paths) > 20
    assert not [f"{path}: {complaint}" for path in paths for complaint in forbidden_words(path.read_text())]


@pytest.mark.parametrize(
    "bad", ["see /" + "home/me/x", "# TO" + "DO: later", "http" + "://host", "read .." + "/elsewhere", "FIX" + "ME"]
)
def test_forbidden_words_are_found(bad):
    assert len(forbidden_words(f"fine\n{bad}\nfine")) == 1


# chapters and docstrings


def chapter_complaints(folder):
    """What is wrong with a folder's chapter: its parts, and a list of files that is complete and true."""
    init = folder / "__init__.py"
    if not init.exists():
        return [f"{folder}: no __init__.py"]
    tree = parse(init)
    text = ast.get_docstring(tree) or ""
    complaints = [f"{init}: no {part!r}" for part in CHAPTER if part not in text]
    complaints += [f"{init}: holds more than the chapter"] * (len(tree.body) > 1)
    listed = set(re.findall(r"^ {4}(\w+) ", text.partition(CHAPTER[-1])[2], flags=re.MULTILINE))
    there = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in folder.glob("*/__init__.py")}
    complaints += [f"{init}: {name} is not in the list of files" for name in sorted(there - listed)]
    complaints += [f"{init}: {name} is listed but not there" for name in sorted(listed - there)]
    return complaints


def chapters():
    """The folders of the stages; demo programs and the like are no stages and need no chapter."""
    stages = [PACKAGE / name for name in ("frontend", "typeinfer", "lowering", "runtime", "fallback")]
    nested = [path for stage in stages for path in stage.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    return stages + nested


@pytest.mark.parametrize("folder", chapters(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_each_folder_has_a_chapter(folder):
    assert not chapter_complaints(folder)


def test_a_chapter_that_has_drifted_is_found(tmp_path):
    assert chapter_complaints(tmp_path)
    text = "\n".join(CHAPTER) + "\n    parse  the verb\n    gone  no more\n"
    (tmp_path / "__init__.py").write_text(f'"""{text}"""\nimport os\n')
    (tmp_path / "parse.py").touch()
    (tmp_path / "new.py").touch()
    assert [complaint.partition(": ")[2] for complaint in chapter_complaints(tmp_path)] == [
        "holds more than the chapter",
        "new is not in the list of files",
        "gone is listed but not there",
    ]


def public_functions(path):
    """The public functions of a module and the public methods of its public classes."""
    scopes = [parse(path)]
    while scopes:
        for node in scopes.pop().body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                scopes.append(node)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
                yield node


def test_modules_and_most_public_functions_are_documented():
    assert not [str(path) for path in python_files(PACKAGE) if not ast.get_docstring(parse(path))]
    functions = [(path, node) for path in python_files(PACKAGE) for node in public_functions(path)]
    bare = [f"{path}:{node.lineno}: {node.name}" for path, node in functions if not ast.get_docstring(node)]
    assert len(bare) <= (1 - DOCUMENTED) * len(functions), "\n".join(bare)


# torch's private parts


def torch_names(tree):
    """Local names bound to torch or to something in it, with what they stand for."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "torch":
                    names[alias.asname or "torch"] = alias.name if alias.asname else "torch"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch" and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def dotted(node, names):
    """The full dotted name of an expression that starts at torch, or an empty string."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        start = dotted(node.value, names)
        return start and f"{start}.{node.attr}"
    return ""


def is_private(name):
    parts = name.split(".")
    hidden = any(part.startswith("_") and not part.endswith("__") for part in parts)
    return parts[0] == "torch" and (hidden or name.startswith(PRIVATE_TORCH))


def private_torch(tree):
    """(line, dotted name) of each import, attribute or constant getattr that reaches a private part of torch."""
    names = torch_names(tree)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            reached = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            reached = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            reached = [dotted(node, names)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            attribute = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            reached = [f"{dotted(node.args[0], names)}.{attribute}"]
        else:
            continue
        found.update((node.lineno, name) for name in reached if is_private(name))
    return sorted(found)


def test_private_torch_is_used_in_one_module_only():
    others = [path for path in python_files(PACKAGE) if path.relative_to(PACKAGE).parts[0] != PRIVATE_DOOR]
    assert not [f"{path}:{line}: {name}" for path in others for line, name in private_torch(parse(path))]


@pytest.mark.parametrize(
    "bad",
    [
        "import torch._dynamo",
        "import torch._C as c",
        "from torch import _C",
        "from torch._subclasses import FakeTensorMode",
        "from torch.fx.experimental import proxy_tensor",
        "import torch\ntorch._C.f()",
        "import torch as t\nx = t._foreach_add",
        "from torch import nn\nnn.Module._call_impl",
        "import torch\ngetattr(torch, '_C')",
    ],
)
def test_private_torch_is_found(bad):
    assert private_torch(ast.parse(bad))


def test_public_torch_is_not_complained_about():
    good = "import torch\nfrom torch import nn\ntorch.__version__\nnn.Module.forward\nself._C\ngetattr(torch, name)"
    assert not private_torch(ast.parse(good))


# locks


def locked_properties(path):
    """Properties that hold a lock of their own, at which a forked child may be stuck: see ``janusc.derived``."""
    decorators = (
        (node, ast.unparse(item))
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef)
        for item in node.decorator_list
    )
    return [f"{path}:{node.lineno}: {node.name}" for node, text in decorators if text.endswith("cached_property")]


def test_no_property_holds_a_lock(tmp_path):
    assert not [text for path in python_files(PACKAGE) for text in locked_properties(path)]
    bad = tmp_path / "bad.py"
    bad.write_text("class A:\n    @functools.cached_property\n    def x(self): ...\n")
    assert len(locked_properties(bad)) == 1
