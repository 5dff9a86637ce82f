"""Format, scopes and checksum of API keys.

    msk_<id, 10>_<secret, 43><checksum, 6>        all of [0-9A-Za-z]

The id is public: the row is found by it. The secret has 43 characters of 62, 256 bits. The checksum detects a
typo or a truncated text without a look into the database; it protects nothing.

What is kept is the SHA-256 of the whole key. A slow hash is for secrets that people invent: of 2^256 equally
likely ones nobody tries a useful part, however fast the hash, and a request must not pay for it.
"""

import hashlib
import re
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from memory_service.domain.common.vocabulary import MODES, Mode
from memory_service.errors import unknown_name, wrong_value

PREFIX = "msk_"
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_CHARACTERS, SECRET_CHARACTERS, CHECK_CHARACTERS = 10, 43, 6

Scope = Literal["read", "tell", "edit", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
LIMITS: tuple[Mode, ...] = ("family", "blind")
"""Stand among a key's scopes and take something away: the most that memory of competitions may be used."""

"""read: ask, look · tell: report runs and calibrations · edit: change rows · admin: everything, keys too."""

_FORM = re.compile(
    rf"{PREFIX}(?P<id>[0-9A-Za-z]{{{ID_CHARACTERS}}})_"
    rf"(?P<secret>[0-9A-Za-z]{{{SECRET_CHARACTERS}}})(?P<check>[0-9A-Za-z]{{{CHECK_CHARACTERS}}})"
)


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """A key that has the right form. `text` is the secret itself: it has no `repr`, so no log shows it."""

    id: str
    text: str


def compose(key_id: str, secret: str) -> Key:
    """The key of this id and secret, with its checksum."""
    stem = f"{PREFIX}{key_id}_{secret}"
    return Key(key_id, stem + _checksum(stem))


def parse(text: str) -> Key | None:
    """The key, or None for a text that cannot be one: another form, or a checksum that does not fit."""
    found = _FORM.fullmatch(text)
    if found is None or _checksum(text[:-CHECK_CHARACTERS]) != found["check"]:
        return None
    return Key(found["id"], text)


def digest(text: str) -> str:
    """What is kept of a secret: SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def allows(scopes: Collection[str], wanted: Collection[str]) -> bool:
    """Whether a key of these scopes may do what any of the `wanted` allows. `admin` may do everything."""
    return "admin" in scopes or any(scope in scopes for scope in wanted)


def checked_scopes(raw: Iterable[str]) -> tuple[str, ...]:
    """The scopes, each once, in the order of `SCOPES`; InvalidInput for an unknown one and for none."""
    scopes = [scope.strip().lower() for scope in raw if scope.strip()]
    for scope in scopes:
        if scope not in (*SCOPES, *LIMITS):
            raise unknown_name("scope", scope, (*SCOPES, *LIMITS))
    if not set(scopes) - set(LIMITS):
        raise wrong_value("scopes", f"must name at least one of {', '.join(SCOPES)}")
    return tuple(scope for scope in (*SCOPES, *LIMITS) if scope in scopes)


def mode_limit(scopes: Collection[str], of_server: Mode) -> Mode:
    """The strictest of what a server and the scopes of a key allow."""
    found = [of_server, *(limit for limit in LIMITS if limit in scopes)]
    return max(found, key=MODES.index)


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    digits = ""
    for _ in range(CHECK_CHARACTERS):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
