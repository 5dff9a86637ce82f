"""A script's syntax tree, indexed once for all rules, with imports, short names and partials in full.

mk = partial(DataLoader, num_workers=8): mk(x) -> DataLoader(x, num_workers=8)
"""

from __future__ import annotations

import ast
import copy
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice, takewhile
from typing import Any, TypeGuard, TypeVar, overload

from memory_service.review.tables import words_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
Key = TypeVar("Key")
Item = TypeVar("Item")


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Key -> all that go by it, in their order."""
    out: dict[Key, list[Item]] = defaultdict(list)
    for key, item in pairs:
        out[key].append(item)
    return out


def last_name(node: ast.AST) -> str:
    """`a.b.c` -> "c"; "" for what has no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def name_of(node: ast.AST) -> str:
    """The last name of an expression, or of what it calls: `torch.no_grad()` -> "no_grad"."""
    return last_name(node.func if isinstance(node, ast.Call) else node)


def roots(node: ast.AST) -> set[str]:
    """Every name that an expression reads, without what is called as a function: `f(df[["a"]])` -> {"df"}."""
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in called}


def words_in(node: ast.AST) -> set[str]:
    """Every identifier of an expression, attributes and keywords included."""
    named = (n.arg if isinstance(n, ast.keyword) else last_name(n) for n in ast.walk(node))
    return {name for name in named if name}


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


def names_in(*nodes: ast.AST) -> set[str]:
    """Every plain name under some nodes, attributes left out."""
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def texts_in(node: ast.AST) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def receiver(node: ast.AST | None) -> ast.expr | None:
    """The object of a method call: `a.b` of `a.b.c()`; None for a plain function, and for what is no call."""
    called = node.func if isinstance(node, ast.Call) else None
    return called.value if isinstance(called, ast.Attribute) else None


def receiver_name(call: ast.Call) -> str:
    """The last name of the object of a method call, "" where there is none."""
    return last_name(receiver(call) or call)


def is_call(node: ast.AST | None, *names: str) -> TypeGuard[ast.Call]:
    """Whether a node is a call of one of these last names."""
    return isinstance(node, ast.Call) and last_name(node.func) in names


def is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_of_self(node: ast.AST) -> bool:
    """`self.x`."""
    return isinstance(node, ast.Attribute) and last_name(node.value) == "self"


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """Every expression handed to a call."""
    return [*call.args, *(k.value for k in call.keywords)]


def entries_of(node: ast.Dict | ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Literal texts that are keys of a dict, or keywords of a call, with their values."""
    if isinstance(node, ast.Call):
        yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value


def keyword_names(call: ast.Call) -> set[str | None]:
    """Names of its keywords; None stands for `**more`."""
    return {k.arg for k in call.keywords}


def bases_of(owner: ast.ClassDef | None) -> set[str]:
    """Last names of the classes that a class is made from."""
    return {last_name(base) for base in owner.bases} if owner is not None else set()


def parameters_of(function: Function) -> list[str]:
    return [a.arg for a in function.args.args]


def all_parameters(function: Function) -> list[ast.arg]:
    """Every parameter, `*args` and `**kwargs` included."""
    a = function.args
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *(p for p in (a.vararg, a.kwarg) if p is not None)]


def targets_of(statement: ast.AST) -> list[ast.expr]:
    """What an assignment of any kind sets."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign | ast.AugAssign) else []


def unpacked(target: ast.AST, value: ast.AST | None) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """(target, value) of what is set: `a, b = x, y` sets two, and `a, b = f()` two to what is unknown."""
    if isinstance(target, ast.Tuple | ast.List):
        given = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        same = len(given) == len(target.elts)
        for at, item in enumerate(target.elts):
            yield from unpacked(item, given[at] if same else None)
    elif isinstance(target, ast.Starred):
        yield target.value, None
    else:
        yield target, value


_RE, _SET, *_ = words_of("script")
Node = TypeVar("Node", bound=ast.AST)
Other = TypeVar("Other", bound=ast.AST)
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module | ast.ClassDef | ast.Lambda
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module, ast.ClassDef, ast.Lambda)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)  # one each for the whole tree

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
MOST_FOLLOWED = 400  # functions followed from one place: a script's own are fewer
MOST_VISITED = 2_000_000  # by all rules together; a training script takes a tenth


class Script:
    """A parsed script. Nodes keep their order in the text; nothing of it is executed."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        self.tree = tree
        write_in_full(tree)
        self.lines = text.split("\n")
        self._left = MOST_VISITED
        self.parents: dict[ast.AST, ast.AST] = {}
        self._children: dict[ast.AST, list[ast.AST]] = {}
        self._of: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self.order: dict[ast.AST, int] = {}
        pending: list[ast.AST] = [tree]
        while pending:
            node = pending.pop()
            self.order[node] = len(self.order)
            self._of[type(node)].append(node)
            children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, _MARKS)]
            self._children[node] = children
            self.parents.update(dict.fromkeys(children, node))
            pending.extend(reversed(children))
        self.imports, self.modules = _imports(self)

    @overload
    def all(self, kind: type[Node], /) -> Sequence[Node]: ...
    @overload
    def all(self, kind: type[Node], other: type[Other], /) -> Sequence[Node | Other]: ...
    def all(self, *kinds: type[ast.AST]) -> Sequence[Any]:
        """Every node of these very types, those of each in the order of the text."""
        found = [self._of.get(kind, []) for kind in kinds]
        return found[0] if len(found) == 1 else [*chain(*found)]

    @cached_property
    def calls(self) -> Sequence[ast.Call]:
        return self.all(ast.Call)

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        return grouped((node.name, node) for node in self.all(*_FUNCTIONS))

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.all(ast.ClassDef)}

    @cached_property
    def heirs(self) -> dict[str, list[ast.ClassDef]]:
        """Class -> classes of this file that are made from it."""
        return grouped((last_name(base), node) for node in self.all(ast.ClassDef) for base in node.bases)

    @cached_property
    def own(self) -> dict[str, ast.Constant]:
        """What a script of this service states at its head, by name; empty for others."""
        stated = {
            target.id: node.value
            for node in self.tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            if isinstance(target := node.targets[0], ast.Name)
        }
        return stated if {"PLAN_ID", "MODEL", "FOLDS", "SEEDS"} <= stated.keys() else {}

    @cached_property
    def set_in(self) -> dict[tuple[ast.AST | None, str], list[ast.Assign]]:
        """(function, name) -> what sets it there, or parts of it, in order."""
        stated = ((name, node) for node in self.all(ast.Assign) for name in names_in(*node.targets))
        return grouped(((self.function(node), name), node) for name, node in stated)

    def returned(self, function: ast.AST) -> list[ast.expr]:
        """What a function returns, functions within it left out."""
        found = (n for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None)
        return [n.value for n in found if self.function(n) is function and n.value is not None]

    def added_keyword(self, call: ast.Call, name: str, value: ast.expr) -> ast.keyword:
        """A keyword that a call has by `**more`, written out; the value stays part of where it is written."""
        keyword = ast.keyword(arg=name, value=value)
        ast.copy_location(keyword, value)
        self.parents[keyword] = call
        self.order[keyword] = self.order[call]
        self._of[ast.keyword].append(keyword)
        return keyword

    @cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """Calls by the last part of what is called: `nn.Linear(...)` under `Linear`."""
        return grouped((last_name(call.func), call) for call in self.calls)

    def called(self, *names: str) -> list[ast.Call]:
        """Calls of these last names, in the order of the text."""
        found = [call for name in names for call in self.calls_by_name.get(name, ())]
        return found if len(names) == 1 else sorted(found, key=self.order.__getitem__)

    def qualified(self, node: ast.AST) -> str:
        """The dotted name with imports resolved: `nn.Linear` -> `torch.nn.Linear`; "" for what has none."""
        behind = ""
        while isinstance(node, ast.Attribute):
            behind = f".{node.attr}{behind}"
            node = node.value
        return self.imports.get(node.id, node.id) + behind if isinstance(node, ast.Name) else ""

    def is_of(self, node: ast.AST, *packages: str) -> bool:
        """Whether a name is, or may be, of one of these packages: not of the file, nor of another package."""
        full = self.qualified(node)
        root = full.split(".")[0]
        own = root in self.classes or root in self.functions or last_name(node) in self.classes
        known = "." in full or (isinstance(node, ast.Name) and node.id in self.imports)
        return not own and (root in packages or not known or root in _SET.usual_names)

    def uses(self, *modules: str) -> bool:
        return not self._packages.isdisjoint(modules)

    @cached_property
    def _packages(self) -> frozenset[str]:
        """What is imported, and all packages that it is in."""
        parts = [module.split(".") for module in self.modules]
        return frozenset(".".join(each[:n]) for each in parts for n in range(1, len(each) + 1))

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What encloses a node, the nearest first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def around(self, node: ast.AST, *kinds: type[ast.AST]) -> Iterator[Any]:
        """What encloses a node and is of one of these types, the nearest first."""
        return (up for up in self.above(node) if isinstance(up, kinds))

    def contexts(self, node: ast.AST) -> Iterator[ast.expr]:
        """What the `with` statements around a node enter."""
        return (item.context_expr for up in self.around(node, ast.With, ast.AsyncWith) for item in up.items)

    def scope(self, node: ast.AST) -> Scope:
        """The function, class or module that a node's names belong to."""
        return next(self.around(node, *_SCOPES), self.tree)

    def function(self, node: ast.AST) -> Function | None:
        """The nearest function around a node."""
        return next(self.around(node, *_FUNCTIONS), None)

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The nearest class around a node."""
        return next(self.around(node, ast.ClassDef), None)

    def callers(self, node: ast.AST) -> list[ast.Call]:
        """Calls, from other functions, of the function that a node is in."""
        function = self.function(node)
        calls = self.calls_by_name.get(function.name, ()) if function is not None else ()
        return [call for call in calls if self.function(call) is not function]

    def loops(self, node: ast.AST) -> list[ast.For | ast.While]:
        """Loops around a node within its function, the innermost first."""
        inside = takewhile(lambda up: not isinstance(up, _FUNCTIONS), self.above(node))
        return [up for up in inside if isinstance(up, _LOOPS)]  # type: ignore[misc]

    def statement(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, ast.stmt) else next(self.around(node, ast.stmt), node)

    def within(self, place: ast.AST | Iterable[ast.AST], *, follow: bool = True) -> Iterator[ast.AST]:
        """Nodes under a place; with `follow` also those of functions of this file that are used there."""
        pending = [place] if isinstance(place, ast.AST) else list(place)
        followed: set[ast.AST] = set(pending)
        while pending:
            for node in self._walk(pending.pop()):
                self._left -= 1
                if self._left < 0:
                    return
                yield node
                if follow and isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                    for target in self.resolve(node):
                        if target not in followed and len(followed) < MOST_FOLLOWED:
                            followed.add(target)
                            pending.append(target)

    def _walk(self, start: ast.AST) -> Iterator[ast.AST]:
        """Like `ast.walk`, without the marks, by the children found once: most of a review is walking."""
        pending = deque([start])
        while pending:
            node = pending.popleft()
            children = self._children.get(node)
            pending.extend(ast.iter_child_nodes(node) if children is None else children)
            yield node

    def resolve(self, node: ast.AST) -> list[ast.AST]:
        """Functions and classes of this file that a name can mean."""
        name = last_name(node)
        if isinstance(node, ast.Attribute) and name in _SET.common:
            return []
        found: list[ast.AST] = list(self.functions.get(name, ()))
        if isinstance(node, ast.Name):
            found = [f for f in found if not isinstance(self.parents.get(f), ast.ClassDef)]
            if name in self.classes:
                found.append(self.classes[name])
        return found

    def within_calls(self, place: ast.AST | Iterable[ast.AST], *, follow: bool = True) -> Iterator[ast.Call]:
        return (node for node in self.within(place, follow=follow) if isinstance(node, ast.Call))

    @cached_property
    def run(self) -> set[ast.AST]:
        """Functions and classes that something at module level leads to, or a decorator hands to a runner."""
        defined = (*_FUNCTIONS, ast.ClassDef)
        top = [s for s in self.tree.body if not isinstance(s, (*defined, ast.Import, ast.ImportFrom))]
        offered = (f for functions in self.functions.values() for f in functions)
        top += [f for f in offered if any(_RE.runner.search(ast.dump(d)[:400]) for d in f.decorator_list)]
        return {node for node in self.within(top) if isinstance(node, defined)}

    def runs(self, node: ast.AST) -> bool:
        """Whether the file itself gets to this place (a module of helpers only offers it)."""
        around = [up for up in (node, *self.above(node)) if isinstance(up, (*_FUNCTIONS, ast.ClassDef))]
        return not around or any(up in self.run for up in around)

    def comment_near(self, line: int) -> str:
        """Comments on this line and on up to two lines of nothing but comment right above it."""
        above = (text.strip() for text in reversed(self.lines[max(0, line - 3) : line - 1]))
        out = [_comment(text) for text in self.lines[line - 1 : line]]
        out += takewhile(lambda text: text.startswith("#"), above)
        return " ".join(part for part in out if part).lstrip("# ").strip()

    @cached_property
    def notes(self) -> list[str]:
        """Comments, those on lines below one another as one text."""
        out: list[str] = [""]
        for line in self.lines:
            stated = _comment(line) if "#" in line else ""
            if not stated and not out[-1]:
                continue
            if stated and line.lstrip().startswith("#"):
                out[-1] += " " + stated.lstrip("# ")
            else:
                out += [stated.lstrip("# "), ""]
        return [text for text in out if text]

    @cached_property
    def text(self) -> str:
        """All of it, in lower case."""
        return "\n".join(self.lines).lower()

    def given_as(self, *names: str) -> Iterator[ast.expr]:
        """What any call is given under these names."""
        return (keyword.value for keyword in self.all(ast.keyword) if keyword.arg in names)

    @cached_property
    def strings(self) -> list[str]:
        return [node.value for node in self.all(ast.Constant) if isinstance(node.value, str)]


def _imports(script: Script) -> tuple[dict[str, str], set[str]]:
    """Local name -> dotted name, and every module imported."""
    names: dict[str, str] = {}
    modules: set[str] = set()
    for node in script.all(ast.Import):
        for alias in node.names:
            modules.add(alias.name)
            known = alias.name if alias.asname else alias.name.split(".")[0]
            names[alias.asname or known] = known
    for item in script.all(ast.ImportFrom):
        module = "." * item.level + (item.module or "")
        modules.add(module)
        for alias in item.names:
            if alias.name != "*":
                names[alias.asname or alias.name] = f"{module}.{alias.name}"
                modules.add(f"{module}.{alias.name}")
    return names, modules


def _comment(line: str) -> str:
    """The comment at the end of a line; a hash within quotes is none."""
    found = _RE.comment.match(line)
    return found[1] if found else ""


MOST_NAMED = 1_000  # calls under a short name that are read in full: a script has a few
LONGEST_NAME = 6  # dots in a name that another name is short for: `torch.utils.data.DataLoader` has three
MOST_IN_PARTIAL = 200  # nodes of a partial that is written out: one with six arguments has fifty
Named = ast.Name | ast.Attribute


def write_in_full(tree: ast.Module) -> None:
    """Changes the tree in place; lines and columns stay those of the text."""
    nodes = list(ast.walk(tree))
    bound, imported = bound_names(nodes)
    _rename_imports(nodes, bound, imported)
    names, partials = _short(nodes, bound, imported)
    short, calls = {*names, *partials}, (node for node in nodes if isinstance(node, ast.Call))
    for call in islice((c for c in calls if _key(c.func) in short), MOST_NAMED):
        if isinstance(call.func, ast.Name) and call.func.id in names:
            call.func = _placed(names[call.func.id], call.func)
        partial = partials.get(_key(call.func), call)
        if partial is not call:  # it becomes a call of what that is a partial of
            given = {k.arg for k in call.keywords if k.arg}
            call.func = _placed(partial.args[0], call.func)  # type: ignore[arg-type]
            call.args = [*(copy.deepcopy(a) for a in partial.args[1:]), *call.args]
            saved = [copy.deepcopy(k) for k in partial.keywords if k.arg is None or k.arg not in given]
            call.keywords = [*saved, *call.keywords]


def bound_names(nodes: list[ast.AST]) -> tuple[dict[str, int], set[str]]:
    """How often each name is set, and the names that imports bring."""
    bound: dict[str, int] = defaultdict(int)
    imported: set[str] = set()
    for node in nodes:
        match node:
            case ast.Import() | ast.ImportFrom():
                imported |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            case ast.Name(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                bound[_key(node)] += 1
            case ast.arg(arg=name):
                bound[name] += 1
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound[name] += 1
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                bound[name] += 1
    return bound, imported


def _rename_imports(nodes: list[ast.AST], bound: dict[str, int], imported: set[str]) -> None:
    """`from x import LongName as LN`: LN is LongName wherever it stands."""
    renamed: dict[str, str] = {}
    pairs = [(n.module, alias) for n in nodes if isinstance(n, ast.ImportFrom) for alias in n.names]
    plain = {alias.name: module for module, alias in pairs if not alias.asname}
    for module, alias in pairs:
        short, full = alias.asname, alias.name
        free = short and short != full and not bound[short] and not bound[full]
        if not short or not free or (full in imported and plain.get(full) != module):
            continue
        if renamed.setdefault(short, full) == full:
            alias.asname = None
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in renamed:
            node.id = renamed[node.id]
    imported |= set(renamed.values())


def _short(
    nodes: list[ast.AST], bound: dict[str, int], imported: set[str]
) -> tuple[dict[str, Named], dict[str, ast.Call]]:
    """Names set once to a name of a library, and names set once to a partial."""
    names: dict[str, Named] = {}
    partials: dict[str, ast.Call] = {}
    stated = (node for node in nodes if isinstance(node, ast.Assign) and len(node.targets) == 1)
    for target, value in ((node.targets[0], node.value) for node in stated):
        if not isinstance(target, Named) or bound[_key(target)] != 1:
            continue
        if isinstance(value, ast.Call):  # short enough to be written out
            named = is_call(value, "partial") and isinstance((*value.args, None)[0], Named)
            if named and sum(1 for _ in islice(ast.walk(value), MOST_IN_PARTIAL + 1)) <= MOST_IN_PARTIAL:
                partials[_key(target)] = value
        elif isinstance(target, ast.Name) and isinstance(value, Named):
            base: ast.AST = value
            for _ in range(LONGEST_NAME):
                base = base.value if isinstance(base, ast.Attribute) else base
            if isinstance(base, ast.Name) and base.id in imported:
                names[target.id] = value
    return names, partials


def _key(node: ast.AST) -> str:
    """`name` or `self.name`; "" for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _placed(named: Named, at: ast.expr) -> Named:
    """The same dotted name anew, standing where another name stood."""
    if isinstance(named, ast.Name):
        return ast.copy_location(ast.Name(named.id, ast.Load()), at)
    base = named.value
    inner = _placed(base, at) if isinstance(base, Named) else base
    return ast.copy_location(ast.Attribute(inner, named.attr, ast.Load()), at)
