"""What Python code can do to the tests that judge it, found in its syntax tree."""

import ast
import re
import sys
from collections.abc import Collection, Iterator

from autopatch.repair.paths import is_test

Mark = tuple[int, str]
"""A line, from 1, and what it does."""

_MODULES = {
    "_pytest", "pytest", "pluggy", "unittest", "doctest", "nose", "mock", "hypothesis", "xdist", "coverage", "gc", "ctypes",
    "cffi",
    "_ctypes", "atexit", "signal", "faulthandler", "builtins", "importlib", "imp", "pkgutil", "runpy", "site", "bdb", "pdb",
    "subprocess", "pty", "marshal", "_thread", "zipimport", "types",
}
"""Modules that reach the interpreter, the runner or other processes. `types` can build functions from code."""
_HARMLESS = {"types": {"SimpleNamespace", "MappingProxyType", "TracebackType", "ModuleType", "GeneratorType", "NoneType"}}
"""What is imported of them without harm."""
_DEEDS = {
    "os._exit", "os.abort", "os.kill", "os.killpg", "os.fork", "os.forkpty", "os.system", "os.popen", "os.dup2", "os.closerange",
    "os.posix_spawn", "os.getppid", "sys.settrace", "sys.setprofile", "sys._getframe", "sys._current_frames", "sys.addaudithook",
    "threading.settrace", "threading.setprofile", "inspect.currentframe", "inspect.stack", "inspect.trace",
    "inspect.getouterframes",
    "inspect.getinnerframes", "traceback.walk_stack", "traceback.extract_stack", "sys.modules", "sys.meta_path", "sys.path_hooks",
    "sys.path", "sys.__stdout__", "sys.__stderr__", "sys.monitoring", "sys.__dict__", "os.__dict__",
}
_NAMES = {"exec", "eval", "compile", "__import__", "__builtins__", "breakpoint", "globals", "__file__"}
_EXITS = {"exit", "quit", "SystemExit", "KeyboardInterrupt", "sys.exit"}
_ATTRIBUTES = {
    "f_back", "f_locals", "f_globals", "f_builtins", "f_code", "tb_frame", "gi_frame", "cr_frame", "ag_frame", "__globals__",
    "__code__",
    "__closure__", "__builtins__", "__subclasses__", "__loader__", "__spec__",
}
_COMPARES = {
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__contains__", "__instancecheck__",
    "__subclasscheck__",
    "__class__", "__getattribute__", "__getattr__", "__del__",
}
_BUILT_IN = {"isinstance", "len", "print", "AssertionError", "__import__", "__builtins__", "abs", "round", "sorted", "repr"}
"""Names of which a module has none of its own."""


def classes_in(tree: ast.Module) -> set[str]:
    """Names of all classes."""
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def marks_in(tree: ast.Module, old_classes: Collection[str]) -> Iterator[Mark]:
    """Everything in a module that could forge a verdict, in no order, with equal words for equal deeds.

    Classes in `old_classes` may compare as they like, unless they say the same of everything.
    """
    names = _imported(tree)
    for node in ast.walk(tree):
        yield from _of_import(node)
        yield from _of_node(node, names)
        if isinstance(node, ast.ClassDef):
            yield from _of_class(node, node.name not in old_classes)
    yield from _at_top(tree.body, names)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Local names and what they stand for: `import os as o` gives o: os, `from os import _exit as e` gives e: os._exit."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _of_import(node: ast.AST) -> Iterator[Mark]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.partition(".")[0] in _MODULES:
                yield node.lineno, f"imports {alias.name}"
            if _is_test_module(alias.name):
                yield node.lineno, f"imports the tests ({alias.name})"
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        top = module.partition(".")[0]
        if top in _MODULES and not node.level and {alias.name for alias in node.names} - _HARMLESS.get(top, set()):
            yield node.lineno, f"imports from {module}"
        if _is_test_module(module) or any(_is_test_module(alias.name) for alias in node.names):
            yield node.lineno, f"imports the tests ({module})"


def _is_test_module(name: str) -> bool:
    return is_test(name.replace(".", "/") + ".py") or "conftest" in name.split(".")


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """`o._exit` as `os._exit`; '' when it does not begin with a name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    base = _dotted(node.value, names) if isinstance(node, ast.Attribute) else ""
    return f"{base}.{node.attr}" if base and isinstance(node, ast.Attribute) else ""


def _is_foreign(node: ast.expr, names: dict[str, str]) -> bool:
    """Does it come from the standard library or a test tool, so that nobody but us should change it?"""
    first = node
    while isinstance(first, ast.Attribute):
        first = first.value
    top = names.get(first.id, "").partition(".")[0] if isinstance(first, ast.Name) else ""
    return top in _MODULES or top in sys.stdlib_module_names


def _of_node(node: ast.AST, names: dict[str, str]) -> Iterator[Mark]:
    match node:
        case ast.Attribute():
            if (dotted := _dotted(node, names)) in _DEEDS:
                yield node.lineno, f"uses {dotted}"
            if node.attr in _ATTRIBUTES or (node.attr == "__class__" and not isinstance(node.ctx, ast.Load)):
                yield node.lineno, f"reaches for {node.attr}"
            if not isinstance(node.ctx, ast.Load) and _is_foreign(node.value, names):
                yield node.lineno, f"changes {dotted}"
        case ast.Name(id=name):
            if names.get(name, "") in _DEEDS or (name in _NAMES and name not in names):
                yield node.lineno, f"uses {names.get(name, name)}"
        case ast.Call(func=ast.Name(id="getattr" | "setattr" | "delattr" | "vars" | "dir" as name), args=[target, *rest]):
            computed = name == "getattr" and rest and not isinstance(rest[0], ast.Constant)
            hidden = rest and isinstance(rest[0], ast.Constant) and rest[0].value in _ATTRIBUTES
            if (computed and isinstance(rest[0], ast.BinOp | ast.JoinedStr)) or hidden or _is_foreign(target, names):
                yield node.lineno, f"uses {name} on {ast.unparse(target)[:40]}"
        case ast.Call(func=ast.Name(id="type"), args=[_, _, _]):
            yield node.lineno, "makes a class at run time"
        case ast.If(test=test) if "__name__" in ast.dump(test) and ast.unparse(test) != "__name__ == '__main__'":
            yield node.lineno, f"asks how it is run: {ast.unparse(test)[:60]}"
        case ast.Constant(value=str(text)):
            if _names_tests(text):
                yield node.lineno, f"names the tests or their runner ({text[:40]!r})"
        case _:
            return


def _names_tests(text: str) -> bool:
    """A path of tests, their configuration or report, or a variable of the runner; prose and addresses are none."""
    low = text.lower()
    if len(text) > 200 or re.search(r"\s|://", text):
        return False
    if low.startswith(("pytest_", "pytest.", "_pytest", "py.test")) or "conftest" in low or re.search(r"\*.*\.py\Z", low):
        return True
    report = low.endswith(".xml") and re.search("junit|report|result", low)
    return bool(report) or (("/" in text or low.endswith((".py", ".ini"))) and (is_test(text) or low.endswith("pytest.ini")))


def _of_class(node: ast.ClassDef, new: bool) -> Iterator[Mark]:
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            defined = [item.name]
            always = item.name in _COMPARES and _is_always(item)
        else:
            targets = item.targets if isinstance(item, ast.Assign) else [item.target] if isinstance(item, ast.AnnAssign) else []
            defined = [target.id for target in targets if isinstance(target, ast.Name)]
            always = bool(_COMPARES & set(defined))
        for name in _COMPARES & set(defined):
            if always:
                yield item.lineno, f"{node.name}.{name} says the same of everything"
            elif new:
                yield item.lineno, f"{node.name} is a new class with its own {name}"
    if new and any(keyword.arg == "metaclass" for keyword in node.keywords):
        yield node.lineno, f"{node.name} is a new class with a metaclass"


def _is_always(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Every return gives one and the same constant."""
    returned = {ast.dump(node.value) if node.value else "" for node in ast.walk(function) if isinstance(node, ast.Return)}
    return len(returned) == 1 and next(iter(returned)).startswith("Constant(")


def _at_top(body: list[ast.stmt], names: dict[str, str]) -> Iterator[Mark]:
    """What a module does while it loads: end the process, or put a name of its own over a built-in one."""
    for node in body:
        own = [node.name] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            own = [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        yield from ((node.lineno, f"puts its own {name} over the built-in one") for name in own if name in _BUILT_IN)
        yield from ((node.lineno, f"defines the hook {name}") for name in own if name.startswith("pytest_"))
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_main(node):
            yield from _exits(node, names)


def _exits(node: ast.stmt, names: dict[str, str]) -> Iterator[Mark]:
    for inner in ast.walk(node):
        called = _dotted(inner.func, names) if isinstance(inner, ast.Call) else ""
        raised = inner.exc if isinstance(inner, ast.Raise) else None
        if called in _EXITS or (isinstance(raised, ast.Name) and raised.id in _EXITS):
            yield getattr(inner, "lineno", node.lineno), "ends the process while it is imported"


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test) and "__main__" in ast.dump(node.test)
