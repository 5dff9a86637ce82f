"""No library asks a hub: what a model or encoder needs lies on this machine. Not for the client's process,
whose training may well fetch weights."""

import os


def forbid_network() -> None:
    """Before the libraries are imported, which read it once."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        os.environ[name] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
