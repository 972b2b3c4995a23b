"""The style rules as failing tests. An exception is one line here, with its reason.

Import directions are the contracts' (pyproject.toml, lint-imports); spelling is ruff's.
"""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
from collections.abc import Iterator

from tidy_source import (
    ROOT,
    Function,
    Module,
    imports,
    others,
    source,
    strings,
    trials,
    uses,
    words,
)

FILE_LINES = 500
FUNCTION_LINES = 60
WRITTEN = (".py", ".js", ".ts", ".mjs", ".css", ".html", ".sql", ".sh", "Makefile")
LONG_FILES: dict[str, str] = {}
SHOWN = 30

PRIVATE = re.compile(r"_[A-Za-z]\w*")
REASON = re.compile(r"\s*# private (?P<names>_\w+(, _\w+)*): \S.{9}")

BANNED_WORDS = {"utils", "helpers", "common", "manager", "handler", "dto", "mapper"}
WORDS_ALLOWED: dict[str, str] = {}

ROOFS = (
    "labfleet.app",
    "labfleet.rehearsal",
    "labfleet.cli",
    "labfleet.entry",
    "cml_simulator.shell",
    "kubernetes_simulator.shell",
    "aws_simulator",
)
BANNED_CALLS = {
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.sleep",
    "uuid.uuid1",
    "uuid.uuid4",
    "os.environ",
    "os.getenv",
    "os.urandom",
    "asyncio.create_task",
    "asyncio.ensure_future",
    "asyncio.to_thread",
    "asyncio.wait_for",
    "asyncio.wait",
}
BANNED_MODULES = {"random", "secrets"}
CALLS_ALLOWED: dict[str, str] = {}

BLIND_CATCHES = {
    "labfleet.engine.controller": "one broken reconcile must not end the worker",
    "labfleet.engine.supervisor": "a role that fails is restarted, whatever it raised",
    "labfleet.stores.runners": "hands the error to whoever awaits, as a thread would",
    "labfleet.api.application": "a defect of a route becomes 500, as it does in the framework",
    "labfleet.rehearsal.time.loop": "a callback that fails is told to the loop, as asyncio does",
    "labfleet.rehearsal.worlds.ec2_wire": "hands the error to whoever awaits, as a thread would",
    "aws_simulator.gate": "the edge of somebody else's application: its faults become 500",
    "aws_simulator.launching": "only NoSuchEntity, of two unrelated types, is taken; all else passes on",
}

NOT_REFERENCED: dict[str, str] = {}
STARTS = {
    "labfleet.entry",
    "labfleet.__main__",
    "labfleet.client",  # Python programs import it
    "cml_simulator.__main__",
    "cml_simulator.shell.main",
    "kubernetes_simulator.__main__",
    "kubernetes_simulator.shell.main",
    "aws_simulator.main",
}


def under(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


def listed(found: list[str]) -> str:
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "\n".join([f"{len(found)} found", *found[:SHOWN], *more])


def test_files_are_short() -> None:
    """No file of any language that we write has more than 500 lines."""
    lengths = {
        path: (ROOT / path).read_text(encoding="utf-8").count("\n")
        for path in tracked()
        if path.endswith(WRITTEN) and path not in LONG_FILES
    }
    long = [f"{path} has {lines} lines" for path, lines in lengths.items() if lines > FILE_LINES]
    assert not long, listed(long)


def test_functions_are_short() -> None:
    """No Python function, of source, tests, scripts or benchmarks, has more than 60 lines."""
    long = [
        f"{module.path}:{node.lineno} {node.name} has {size(node)} lines"
        for module in (*source(), *trials(), *others())
        for node in module.functions
        if size(node) > FUNCTION_LINES
    ]
    assert not long, listed(long)


def size(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_names_say_something() -> None:
    """No module, class or function is called after a drawer that takes anything."""
    bad = [
        f"{module.path}: {name}"
        for module in source()
        for name in named(module)
        if words(name) & BANNED_WORDS and f"{module.name}.{name}" not in WORDS_ALLOWED
    ]
    assert not bad, listed(bad)


def named(module: Module) -> Iterator[str]:
    yield module.name.rsplit(".", 1)[-1]
    yield from (node.name for node in module.functions)
    yield from (node.name for node in module.classes)


def test_time_dice_and_environment_stay_in_the_roofs() -> None:
    """Below the composition roots nobody reads a clock, the environment or random numbers, or starts loose tasks."""
    bad = [
        f"{module.path}:{line} {name}"
        for module in source()
        if not under(module.name, ROOFS)
        for line, name in uses(module)
        if (name in BANNED_CALLS or name.split(".")[0] in BANNED_MODULES)
        and f"{module.name}:{name}" not in CALLS_ALLOWED
    ]
    assert not bad, listed(bad)


def test_tasks_live_in_task_groups() -> None:
    """Below the composition roots no task is started on the bare event loop."""
    bad = [
        f"{module.path}:{node.lineno}"
        for module in source()
        if not under(module.name, ROOFS)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in {"create_task", "run_in_executor"}
        and "loop" in ast.unparse(node.value)
        and f"{module.name}:{node.attr}" not in LOOPS_ALLOWED
    ]
    assert not bad, listed(bad)


LOOPS_ALLOWED: dict[str, str] = {
    "labfleet.stores.runners:run_in_executor": "the runner is how threads come to the stores",
    "labfleet.engine.aside:run_in_executor": "one thread for large texts, of whichever room",
    "labfleet.adapters.aws.runner:run_in_executor": "the runner is how threads come to boto3",
}


def test_modules_open_with_a_docstring() -> None:
    """Every file of source and tests says first what it is for."""
    missing = [
        each.path
        for each in (*source(), *trials())
        if each.tree.body and ast.get_docstring(each.tree) is None
    ]
    assert not missing, listed(missing)


def test_public_names_are_documented() -> None:
    """Every public function and class at the top of a module has a docstring."""
    missing = [
        f"{module.path}:{node.lineno} {node.name}"
        for module in source()
        for node in module.tree.body
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and ast.get_docstring(node) is None
    ]
    assert not missing, listed(missing)


def test_tests_state_a_claim() -> None:
    """Every test has a docstring."""
    missing = [
        f"{module.path}:{node.lineno} {node.name}"
        for module, node in claims()
        if ast.get_docstring(node) is None
    ]
    assert not missing, listed(missing)


def test_tests_assert_something() -> None:
    """Every test asserts, by itself or through a function of the tests that does."""
    asserting = {
        node.name for module in trials() for node in module.functions if asserts(node, set())
    }
    idle = [
        f"{module.path}:{node.lineno} {node.name}"
        for module, node in claims()
        if not asserts(node, asserting - {node.name})
    ]
    assert not idle, listed(idle)


def claims() -> list[tuple[Module, Function]]:
    return [
        (module, node)
        for module in trials()
        if module.path.rsplit("/", 1)[-1].startswith("test_")
        for node in module.functions
        if node.name.startswith("test_")
    ]


def asserts(node: Function, others: set[str]) -> bool:
    for each in ast.walk(node):
        if isinstance(each, ast.Assert):
            return True
        if isinstance(each, ast.Call):
            called = each.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in others or name in {"raises", "warns", "fail"} or name.startswith("assert"):
                return True
    return False


def test_private_names_are_touched_for_a_reason() -> None:
    """A test file says why at the first use of each name with an underscore that is not its own.

    The reason is a comment above that use: `# private _name, _other: reason`.
    """
    silent = [
        f"{module.path}:{line} {name}"
        for module in trials()
        for name, line in touched(module).items()
        if not any(name in said and at < line for at, said in reasons(module))
    ]
    assert not silent, listed(silent)


def test_reasons_for_private_names_are_still_needed() -> None:
    """No such comment outlives the use that it was made for."""
    stale = [
        f"{module.path}:{at} {name}"
        for module in trials()
        for at, said in reasons(module)
        for name in said
        if touched(module).get(name, 0) <= at
    ]
    assert not stale, listed(stale)


@functools.cache
def touched(module: Module) -> dict[str, int]:
    """Return the private names of others that a file touches, with the first line of each."""
    found: dict[str, int] = {}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Attribute) or not PRIVATE.fullmatch(node.attr):
            continue
        if ast.unparse(node.value) not in {"self", "cls", "super()"}:
            found[node.attr] = min(node.lineno, found.get(node.attr, node.lineno))
    return found


def reasons(module: Module) -> list[tuple[int, set[str]]]:
    """Return the lines that give a reason, with the names that each speaks of."""
    found = []
    for number, line in enumerate(module.text.splitlines(), start=1):
        told = REASON.match(line)
        if told is not None:
            found.append((number, set(told["names"].split(", "))))
    return found


def test_blind_catches_are_known() -> None:
    """`except Exception` stands in the queue worker, the supervisor and the listed places."""
    bad = [
        f"{module.path}:{node.lineno}"
        for module in source()
        if module.name not in BLIND_CATCHES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and blind(node)
    ]
    assert not bad, listed(bad)


def blind(node: ast.ExceptHandler) -> bool:
    if node.type is None:
        return True
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    names = {each.id for each in caught if isinstance(each, ast.Name)}
    # Letting everything pass on after tidying up hides nothing.
    passes_on = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
    return bool(names & {"Exception", "BaseException"}) and not passes_on


def test_every_file_is_reached() -> None:
    """Every module of the source is imported, or named, on some way from an entry point."""
    modules = {each.name: each for each in source()}
    reached: set[str] = set()
    waiting = [name for name in STARTS if name in modules]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in modules:
            continue
        reached.add(name)
        parts = name.split(".")
        waiting += [".".join(parts[:end]) for end in range(1, len(parts))]
        waiting += imports(modules[name]) | (set(strings(modules[name])) & set(modules))
    lost = sorted(set(modules) - reached - set(NOT_REFERENCED))
    assert not lost, listed(lost)


def test_nothing_names_a_machine() -> None:
    """No tracked file holds a path of some machine or the host of a package registry."""
    banned = [f"/{folder}/" for folder in ("root", "home", "work")]
    banned += ["pypi" + ".org", "python" + "hosted.org", "arti" + "factory", "npmjs" + ".org"]
    bad = [
        f"{path}: {each}"
        for path in tracked()
        for each in banned
        if each.encode() in (ROOT / path).read_bytes()
    ]
    assert not bad, listed(bad)


def tracked() -> list[str]:
    git = shutil.which("git")
    assert git is not None, "git is needed to know which files are ours"
    done = subprocess.run(  # new files count too, before they are added
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    )
    paths = [path for path in done.stdout.decode().split("\0") if path]
    assert "pyproject.toml" in paths
    return [path for path in paths if (ROOT / path).is_file()]


def test_exceptions_are_still_needed() -> None:
    """No exception outlives the module it was made for."""
    modules = {each.name for each in source()}
    excused = {
        *BLIND_CATCHES,
        *NOT_REFERENCED,
        *(key.rsplit(".", 1)[0] for key in WORDS_ALLOWED),
        *(key.split(":")[0] for key in (*CALLS_ALLOWED, *LOOPS_ALLOWED)),
    }
    assert excused <= modules, listed(sorted(excused - modules))
