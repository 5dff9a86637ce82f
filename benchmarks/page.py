"""Where in a page of docs/ does a benchmark write? Between two markers of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE", "Section"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "methods" / "performance.md"


@dataclass(frozen=True)
class Section:
    """The part of the page that one benchmark writes, by its name."""

    name: str
    page: Path = PAGE

    @property
    def begin(self) -> str:
        return f"<!-- {self.name} -->"

    @property
    def end(self) -> str:
        return f"<!-- /{self.name} -->"

    def marked(self, text: str) -> str:
        """The text between its markers."""
        return f"{self.begin}\n{text.strip()}\n{self.end}"

    def written(self, page: str, text: str) -> str:
        """The page with this section replaced, or added at the end. text: with its markers."""
        if self.begin in page and self.end in page:
            before, _, rest = page.partition(self.begin)
            return before + text + rest.partition(self.end)[2]
        return f"{page.rstrip()}\n\n{text}\n"

    def keep(self, text: str) -> None:
        """Write the section into its page. text: with its markers."""
        self.page.write_text(self.written(self.page.read_text(encoding="utf-8"), text), encoding="utf-8")
