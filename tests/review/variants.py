"""A right script and one replacement that makes it wrong: the rule must see the one and not the other."""

from __future__ import annotations

from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.review.review import review_script


def rules_of(script: str, database: Database | None = None, **context: Any) -> set[str]:
    """Rules of the findings of a script."""
    return {item["rule"] for item in review_script(database, {"script": script, **context})["findings"]}


def check(
    rule: str, script: str, good: str, bad: str, database: Database | None = None, **context: Any
) -> None:
    """The rule is silent with `good` in the script and speaks with `bad` in its place."""
    assert good in script
    if "StandardScaler" in bad and "import StandardScaler" not in script:
        script = "from sklearn.preprocessing import StandardScaler\n" + script
    assert rule not in rules_of(script, database, **context)
    assert rule in rules_of(script.replace(good, bad), database, **context)
