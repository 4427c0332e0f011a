"""Headers that prevent browsers from treating an answer as anything but data."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of answers that are data. Browsers must not run them, show them in a frame, or guess another type."""
_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def page_headers(page: bytes) -> dict[str, str]:
    """Return such headers for a page of a library, which may run its own inline scripts and this service's files."""
    hashes = (b64encode(sha256(script).digest()).decode() for script in _INLINE.findall(page))
    scripts = " ".join(["'self'", *(f"'sha256-{hashed}'" for hashed in hashes)])
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return SAFE_HEADERS | {"Content-Security-Policy": policy}
