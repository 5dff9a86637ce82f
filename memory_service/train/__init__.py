"""The runtime of generated training scripts."""

from importlib.util import find_spec

_LACKING = [name for name in ("numpy", "pandas", "sklearn") if find_spec(name) is None]
if _LACKING:
    raise ModuleNotFoundError(
        f"{', '.join(_LACKING)} not installed: pip install 'memory-service[train]'. The first lines of a "
        "training script name what else it needs",
        name=_LACKING[0],
    )
