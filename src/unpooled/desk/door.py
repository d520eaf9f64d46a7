"""Access to a desk, for the one browser that has the link of its start.

    every request     the host is this machine's name     else 400 (DNS rebinding)
    /open?token=...   the first time: sets the session    else 403
    everything else   has the session's cookie            else 403
    POST              from a page of this desk, with      else 403
                      the form's own token

A desk listens on this machine only. That alone would let any page in the user's
browser, and any user of the machine, send requests to it.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, final
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HOSTS = ("127.0.0.1", "localhost")
# A reason and a name are short.
_MOST_BYTES = 64 * 1024
_FORM = "application/x-www-form-urlencoded"
# As the report's, which no page can widen; forms may go to the desk and nowhere else.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    # With "no-referrer" a browser would hide the origin of our own forms, too.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_CLOSED = (
    "This desk is open in another browser, or this link was used before. Each link "
    "opens the desk once: end the command in the terminal and start it again for a "
    "new one."
)


@final
class Door:
    """The desk's pages behind a one-time link, for requests of this machine alone.

    Parameters
    ----------
    app : ASGI application
        The pages. Its requests have ``scope["desk.form_token"]`` for their forms, and
        those of forms have ``scope["desk.form"]``, the fields by name.
    port : int or None
        The port that the desk listens on; None for a socket of the file system, which
        may be forwarded to any port.
    """

    def __init__(self, app: App, port: int | None = None) -> None:
        self._app, self._port = app, port
        # The port is part of the name, because a browser shares cookies among all ports
        # of a host.
        self._cookie = f"unpooled-desk-{port or 'socket'}"
        self._link: str | None = secrets.token_urlsafe(32)
        self._session = ""
        self._form = secrets.token_urlsafe(32)

    @property
    def path(self) -> str:
        """Path and token of the link that opens the desk, once."""
        return f"/open?token={self._link}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError("A desk answers HTTP only.")
        headers = _headers(scope)
        host = headers.get("host", "")
        if not self._is_own(host):
            await _say(send, 400, "This is not the address of the desk.")
        elif scope["path"] == "/open" and scope["method"] == "GET":
            await self._open(scope, send)
        elif not self._knows(headers):
            await _say(send, 403, _CLOSED)
        elif scope["method"] in ("GET", "HEAD"):
            await self._show(scope, receive, send)
        else:
            await self._change(scope, headers, receive, send)

    def _is_own(self, host: str) -> bool:
        """Whether a request's host is this machine, which fails after DNS rebinding."""
        name, _, port = host.partition(":")
        if name not in HOSTS:
            return False
        if self._port is None:
            return not port or port.isdecimal()
        return port == str(self._port)

    def _knows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request has the session's cookie."""
        jar = SimpleCookie()
        try:
            jar.load(headers.get("cookie", ""))
        except CookieError:
            return False
        found = jar.get(self._cookie)
        return bool(self._session) and _same(
            found.value if found else "", self._session
        )

    async def _open(self, scope: Scope, send: Send) -> None:
        given = _fields(scope["query_string"]).get("token", "")
        # A link that was used is gone: it stands in the browser's history.
        if self._link is None or not _same(given, self._link):
            await _say(send, 403, _CLOSED)
            return
        self._link, self._session = None, secrets.token_urlsafe(32)
        cookie = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        await _say(send, 303, "", {"location": "/", "set-cookie": cookie})

    async def _show(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["desk.form_token"] = self._form
        await self._app(scope, receive, _with_headers(send))

    async def _change(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip()
        body = await _body(receive) if kind == _FORM else None
        if scope["method"] != "POST" or body is None:
            await _say(send, 400, "The desk takes the forms of its own pages only.")
            return
        form = _fields(body)
        own = headers.get("origin") == f"http://{headers['host']}"
        if not own or not _same(form.pop("form_token", ""), self._form):
            await _say(send, 403, "This form does not come from a page of this desk.")
            return
        scope["desk.form"] = form
        await self._show(scope, receive, send)


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _headers(scope: Scope) -> dict[str, str]:
    """Return headers by name; one that comes twice is none."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        twice |= {key} & found.keys()
        found[key] = value.decode("latin-1")
    return {key: value for key, value in found.items() if key not in twice}


def _fields(text: bytes) -> dict[str, str]:
    """Return the fields of a form or a query, of each name the last."""
    try:
        found = parse_qs(text.decode("ascii"), max_num_fields=50, errors="replace")
    except ValueError:
        return {}
    return {name: values[-1] for name, values in found.items()}


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request; None where it is too long."""
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > _MOST_BYTES:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


def _with_headers(send: Send) -> Send:
    """Return a function that sends responses with the headers that all of them have."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(k.encode(), v.encode()) for k, v in _HEADERS.items()]
            message["headers"] = [*message.get("headers", []), *own]
        await send(message)

    return sending


async def _say(
    send: Send, status: int, text: str, headers: Mapping[str, str] | None = None
) -> None:
    """Send a sentence of our own, in plain text."""
    body = f"{text}\n".encode()
    more = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    pairs = [(k.encode(), v.encode()) for k, v in more.items()]
    sending = _with_headers(send)
    await sending({"type": "http.response.start", "status": status, "headers": pairs})
    await sending({"type": "http.response.body", "body": body})
