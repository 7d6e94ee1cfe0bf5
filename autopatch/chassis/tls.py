"""The certificates that every HTTP client of this process trusts."""

import ssl
from functools import cache

import httpx2


@cache
def trusted() -> ssl.SSLContext:
    """Read once: it takes 50 ms, which a room with several clients would spend for each of them."""
    return httpx2.create_ssl_context(trust_env=False)
