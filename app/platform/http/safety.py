"""Headers that keep browsers from making more of an answer than it is."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of answers that are data: nothing in them is run, shown in a frame, or taken for another type than it says."""
_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)


def page_headers(page: bytes) -> dict[str, str]:
    """The same for a page of a library's: its own inline scripts, and this service's files, are all that runs."""
    hashes = (b64encode(sha256(script).digest()).decode() for script in _INLINE.findall(page))
    scripts = " ".join(["'self'", *(f"'sha256-{hashed}'" for hashed in hashes)])
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return SAFE_HEADERS | {"Content-Security-Policy": policy}
