"""Techniques that generated scripts do: when each is done, its settings, and how it is said
(`techniques.toml`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.tables import shipped_table


@dataclass(frozen=True, slots=True)
class Technique:
    """One of the file, or a part of one; its head says what the fields are."""

    name: str
    when: str
    how: str
    scripts: str
    tasks: tuple[str, ...] = ("",)
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    settings: str = ""

    def applies(self, plan: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        """Whether the plan's script does it.

        facts   of the script, by name: `script_choice.facts_of`
        """
        return self.fits(plan, facts) and self._wanted(plan)

    def fits(self, plan: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        """Whether the plan's script can do it."""
        fits = plan["task"].startswith(tuple(self.tasks)) and all(facts[word] for word in self.needs)
        return fits and not any(facts[word] for word in self.without)

    def _wanted(self, plan: Mapping[str, Any]) -> bool:
        """Chosen by the asker, else by the recipe."""
        if plan.get("techniques") is not None and self.when != "always":
            return self.name in plan["techniques"].split(",")
        recipe = plan["recipe"] or {}
        losses = sorted(recipe.get("loss", ()), key=lambda each: -each["share"])
        named = {
            "recipe": recipe.get("techniques", ()),
            "most used": losses[:1],
            "listed": losses,
        }.get(self.when)
        return named is None or any(each["name"] == self.name for each in named)


TECHNIQUES = {
    word: Technique(**entry) for word, entry in shipped_table(__package__, "techniques.toml").items()
}
"""By the word that the file calls each by."""
