"""Security headers of every answer."""

Headers = list[tuple[bytes, bytes]]

_NEVER = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")

_ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", ", ".join(f"{name}=()" for name in _NEVER).encode()),
]
_UNLESS_SAID: Headers = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
_BY_TLS = (b"strict-transport-security", b"max-age=31536000")
"""Said over TLS only, a trusted proxy's in front included: over plain HTTP it means nothing."""


def with_safe_headers(headers: Headers, scheme: str) -> Headers:
    """The answer's own headers and these. A policy that a page says itself stays; what is not said to be
    kept is kept by no cache, since an answer may be one caller's alone."""
    said = {name for name, _ in headers}
    safe = [*headers, *_ALWAYS, *(header for header in _UNLESS_SAID if header[0] not in said)]
    return [*safe, _BY_TLS] if scheme == "https" else safe
