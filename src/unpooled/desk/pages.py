"""Pages of a desk: templates in the report's looks, errors as pages, downloads."""

import re
from functools import cached_property
from pathlib import Path
from typing import Any, final

import jinja2
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from unpooled.errors import UnpooledError
from unpooled.report.page import environment
from unpooled.results.formats import byte_size, minute

_TEMPLATES = Path(__file__).parent / "templates"
Menu = tuple[tuple[str, str], ...]


@final
class Pages:
    """The pages of one desk.

    Parameters
    ----------
    title : str
        Title of the desk, on every page.
    menu : sequence of (str, str)
        Path and name of each part.
    """

    def __init__(self, title: str, menu: Menu) -> None:
        self._title, self._menu = title, menu

    def show(
        self, request: Request, name: str, status: int = 200, **facts: Any
    ) -> Response:
        """Return a page.

        Parameters
        ----------
        name : str
            Name of its template.
        status : int, default 200
            HTTP status.
        **facts : Any
            What the template names.
        """
        path = request.url.path
        here = [one for one, _ in self._menu if path == one or path.startswith(one)]
        text = self._environment.get_template(f"{name}.html.jinja").render(
            desk=self._title,
            menu=self._menu,
            here=max(here, key=len, default="/"),
            form_token=request.scope.get("desk.form_token", ""),
            **facts,
        )
        return HTMLResponse(text, status)

    @property
    def handlers(self) -> dict[Any, Any]:
        """The handlers of errors, for Starlette."""
        return {HTTPException: self._problem, UnpooledError: self._problem}

    def _problem(self, request: Request, wrong: Exception) -> Response:
        status, said = 500, str(wrong)
        if isinstance(wrong, HTTPException):
            status, said = wrong.status_code, str(wrong.detail)
        shared = {"waiting": (), "problem": ""}
        return self.show(request, "problem", status, said=said, **shared)

    @cached_property
    def _environment(self) -> jinja2.Environment:
        made = environment(_TEMPLATES)
        made.globals |= {"byte_size": byte_size, "minute": minute}
        return made


def attachment(name: str, content: bytes) -> Response:
    """Return bytes as a file that a browser saves and never shows."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "file"
    headers = {"content-disposition": f'attachment; filename="{safe}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)
