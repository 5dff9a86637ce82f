"""Which files are sent to hurt the one who reads them? Bytes by name, made here; none is ever run."""

from __future__ import annotations

import random

__all__ = ["HOSTILE", "side_effects"]

DEEP = 100_000


def _noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def _nested_ifs(depth: int) -> str:
    return "".join(f"{' ' * level}if x:\n" for level in range(depth)) + " " * depth + "pass\n"


def _training(loops: int) -> str:
    """Many faults: a review must not answer with more text than it was given time for."""
    head = "import torch\nfrom torch.utils.data import DataLoader\nfrom torch.cuda.amp import autocast\n"
    loop = "for x in DataLoader(d, batch_size=4):\n    loss = net(x)\n    loss.backward()\n    opt.step()\n"
    return head + loop * loops


_DOUBLED = "a0 = 'ab'\n" + "".join(f"a{i + 1} = a{i} + a{i}\n" for i in range(2000))
_DOUBLED_NUMBER = "a0 = 3\n" + "".join(f"a{i + 1} = a{i} * a{i}\n" for i in range(2000))
_BRANCHES = "b0 = 1\n" + "".join(f"b{i + 1} = b{i} if x else b{i}\n" for i in range(500))
_LISTS = "c0 = [1, 2]\n" + "".join(f"c{i + 1} = [*c{i}, *c{i}]\n" for i in range(500))
_CALLS = "".join(f"def f{i}():\n    return f{i + 1}() + f{i + 1}()\n" for i in range(500)) + "f0()\n"
_BOOSTERS = "import lightgbm as lgb\n" + "".join(
    f"m{i} = lgb.LGBMClassifier(n_estimators=900)\nm{i}.fit(x, y)\n" for i in range(300)
)
_USE = "import torch\nd = torch.utils.data.DataLoader(x, batch_size={0}, num_workers={0})\n"

HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "only a line end": b"\n",
    "three hundred boosters": _BOOSTERS.encode(),
    "syntax error": b"import torch\nfor epoch in range(3)\n    print(epoch)\n",
    "5 MB of statements": b"x = 1  # a line of it\n" * 240_000,
    "5 MB in one line": b"x = [" + b"1, " * 1_700_000 + b"]\n",
    "just under 1 MiB of statements": b"y = f(x, 1)\n" * 87_000,
    "just under 1 MiB in one name": b"a" * 1_048_000 + b" = 1\n",
    "just under 1 MiB of lines": b"\n" * 1_048_000,
    "just under 1 MiB of comment": b"# " + b"-" * 1_048_000 + b"\n",
    "just under 1 MiB of open quotes": b"'''" * 349_000,
    "just under 1 MiB of backslashes": b"\\\n" * 524_000,
    "just under 1 MiB of spaces": b" " * 1_048_000 + b"x\n",
    "just under 1 MiB of magics": b"!x\n" * 349_000,
    "a hundred thousand parentheses": b"x = " + b"(" * DEEP + b")" * DEEP + b"\n",
    "a hundred thousand open brackets": b"[" * DEEP,
    "a hundred thousand calls of calls": b"f" + b"(f" * DEEP + b")" * DEEP + b"\n",
    "a hundred thousand signs": b"x = " + b"-" * DEEP + b"1\n",
    "a hundred thousand nots": b"x = " + b"not " * DEEP + b"1\n",
    "a hundred thousand lambdas": b"x = " + b"lambda: " * DEEP + b"1\n",
    "a sum of a hundred thousand terms": b"x = " + b"1 + " * DEEP + b"1\n",
    "a tower of powers": b"x = " + b"9 ** " * DEEP + b"9\n",
    "a hundred thousand dots": b"x = a" + b".a" * DEEP + b"\n",
    "a hundred thousand subscripts": b"x = a" + b"[0]" * DEEP + b"\n",
    "a hundred thousand calls in a row": b"x = a" + b"()" * DEEP + b"\n",
    "a hundred thousand comparisons": b"x = 1" + b" < 1" * DEEP + b"\n",
    "a hundred thousand else ifs": b"x = " + b"1 if x else " * DEEP + b"1\n",
    "a hundred thousand assignments": b"a = " * DEEP + b"1\n",
    "a hundred thousand elifs": b"if x: pass\n" + b"elif x: pass\n" * 70_000,
    "fourteen hundred nested ifs": _nested_ifs(1_400).encode(),
    "ten thousand nested ifs in one column": b"".join(b"\t" * (i % 90) + b"if x:\n" for i in range(10_000)),
    "ninety nested loops": _nested_ifs(90).encode(),
    "a wide f-string": b'a=f"' + b"{a}" * 76_000 + b'"\n',
    "wide f-strings of a thousand": (b'a=f"' + b"{a}" * 1_000 + b'"\n') * 300,
    "twenty f-strings of a thousand": (b'a=f"' + b"{a}" * 1_000 + b'"\n') * 20,
    "lines of wide f-strings": (b'a=f"' + b"{a}" * 140 + b'"\n') * 2_400,
    "a long f-string of a thousand": b'a=f"' + (b"{a}" + b"x" * 1_000) * 1_000 + b'"\n',
    "a raw f-string over many lines": b"a=rF'''" + b"{a}\n" * 100_000 + b"'''\n",
    "nested f-strings": b"x = " + b"f'{" * 5_000 + b"1" + b"}'" * 5_000 + b"\n",
    "ten to the ten to the ten": b"x = 10**10**10\n" + _USE.format("10**10**10").encode(),
    "numbers that cannot be": _USE.format("1e400 // 0").encode() + _USE.format("-1 << 10**9").encode(),
    "a shift of a milliard": _USE.format("1 << 10**9").encode(),
    "a text of a billion letters": b"s = 'a' * 10**12\nt = s.zfill(10**12)\nu = '%1000000000d' % 1\n",
    "lists of a billion": b"l = [0] * 10**10\nr = list(range(10**12))\nb = bytes(10**10)\n",
    "thousands of splits": b"X=load()\n"
    + b"".join(b"a,b=train_test_split(X)\nX=scale(X)\n" for _ in range(2000)),
    "names under thousands of conditions": b"".join(b"x%d=read_csv('a')\n" % i for i in range(2000))
    + b"".join(b"if q:\n x%d=x%d+1\n" % (i, i) for i in range(2000)),
    "functions that call one another twice": b"".join(
        b"def f%d(x):\n return f%d(f%d(x))\n" % (i, i + 1, i + 1) for i in range(300)
    )
    + b"f0(1)\n",
    "loops of a billion": b"for f in range(10**12):\n  for e in range(10**12):\n    l.backward(); o.step()\n",
    "half a million digits": b"x = " + b"9" * 500_000 + b"\n",
    "five thousand digits": _USE.format("9" * 5_000).encode(),
    "doubled texts": (_DOUBLED + _USE.format("len(a2000)")).encode(),
    "squared numbers": (_DOUBLED_NUMBER + _USE.format("a2000")).encode(),
    "branches of branches": (_BRANCHES + _USE.format("b500")).encode(),
    "lists of lists": (_LISTS + _USE.format("c500[0]")).encode(),
    "names in a circle": b"a = b\nb = c\nc = a\n" + _USE.format("a").encode(),
    "a name of itself": b"a = a + a\nd = dict(d, **d)\n" + _USE.format("d['a']").encode(),
    "functions that call two": _CALLS.encode(),
    "a function that calls itself": b"def f(x):\n    return f(f(x))\nf(f)\n",
    "classes in a circle": b"class A(B): pass\nclass B(A): pass\nA.x = B.x\nB.x = A.x\n",
    "two hundred loops with faults": _training(200).encode(),
    "ten thousand loops with faults": _training(10_000).encode(),
    "binary noise": _noise(1, 200_000),
    "binary noise with a cookie": b"# -*- coding: latin-1 -*-\n" + _noise(2, 200_000),
    "a picture": b"\x89PNG\r\n\x1a\n" + _noise(3, 5_000),
    "a pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "null bytes": b"import torch\nx = '\x00'\n",
    "only null bytes": b"\x00" * 100_000,
    "null bytes as an escape": b"import torch\nx = '\\x00'\ny = '\\N{NULL}'\n",
    "UTF-16": "import torch\n".encode("utf-16"),
    "UTF-32": "import torch\n".encode("utf-32"),
    "UTF-8 with a mark": b"\xef\xbb\xbfimport torch\n",
    "a mark and another cookie": b"\xef\xbb\xbf# -*- coding: latin-1 -*-\nimport torch\n",
    "latin-1 by its cookie": "# -*- coding: latin-1 -*-\nname = 'Jürgen'\n".encode("latin-1"),
    "latin-1 without a cookie": "name = 'Jürgen'\n".encode("latin-1"),
    "UTF-7": b"# coding: utf-7\n+AHg- = 1\n",
    "rot13": b"# coding: rot13\nvzcbeg bf\n",
    "zip as an encoding": b"# coding: zip\n" + _noise(4, 1_000),
    "an encoding of nobody": b"# coding: " + b"x" * 10_000 + b"\nimport torch\n",
    "raw unicode escape": b"# coding: raw_unicode_escape\n\\u0069mport os\n",
    "half a surrogate pair": b"x = '\\ud800'\n",
    "letters that turn the text": "x = '\u202e\u2066 evil'\n\u0660 = 1\n".encode(),
    "names that become others": "ｉｍｐｏｒｔ = ﬁt = 1\nｔｏｒｃｈ.ﬁt(ﬁt)\n".encode(),
    "carriage returns": b"import torch\rfor e in range(3):\r    pass\r",
    "form feeds": b"\x0cimport torch\n\x0c\n",
    "tabs and spaces": b"if x:\n\ty = 1\n        z = 2\n",
    "a pattern of much backtracking": b"s = '" + b"a" * 50_000 + b"!'\n# " + b"=" * 50_000 + b"\n%x" * 9_000,
    "a notebook": b'{"cells": [{"cell_type": "code", "source": ["import torch"]}], "nbformat": 4}',
}


def side_effects(witness: str) -> str:
    """A script that leaves the file `witness` behind by whatever way of being run there is."""
    return f"""# -*- coding: utf-8 -*-
import os, sys, atexit
__import__("pathlib").Path({witness!r}).write_text("imported")
open({witness!r}, "a").write("opened")
os.system("touch {witness}")
exec("open({witness!r}, 'a').write('exec')")
eval("__import__('os').system('touch {witness}')")
atexit.register(lambda: open({witness!r}, "a"))

def leave(*a, **k):
    open({witness!r}, "a").write("called")
    return lambda f: f

@leave("decorator")
class Meta(type):
    def __new__(cls, *a, _=leave()):
        leave()
        return super().__new__(cls, *a)

    def __init_subclass__(cls):
        leave()

class Model(metaclass=Meta):
    batch: leave() = leave()
    def __repr__(self): leave(); return "x"
    __index__ = __len__ = __hash__ = __eq__ = leave

from torch.utils.data import DataLoader
x: leave("annotation") = [leave() for _ in range(3)]
f"{{leave()!r:>{{leave()}}}}"
batch_size = Model()
loader = DataLoader(Model(), batch_size=batch_size, num_workers=leave())
assert leave(), leave()
if leave():
    raise SystemExit(leave())
sys.exit(3)
"""
