"""Tables of the documentation that are made from the library's own declarations.

A page has the line ``<!-- generated: rules -->`` where the table `rules` belongs.
MkDocs calls `on_page_markdown` for every page (``hooks:`` in mkdocs.yml).
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from unpooled.errors import RULES
from unpooled.models.base import FederatedEstimator
from unpooled.models.files.catalogue import estimators
from unpooled.party.rules.policy import Policy
from unpooled.protocol.step import home_of, steps_of

_PLACEHOLDER = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def rules() -> str:
    """Return the table of the rules under which an error may leave a silo."""
    return _table(
        ["rule", "what it says", "what to do"],
        ([f"`{rule}`", sentence, remedy] for rule, (sentence, remedy) in RULES.items()),
    )


def releases() -> str:
    """Return for each estimator a table of the arrays that its steps declare."""
    return "\n\n".join(
        f"### `{name}`\n\n" + _table(_OF_RELEASES, rows)
        for name, estimator in estimators().items()
        if (rows := _releases(estimator))
    )


def what_each_sees() -> str:
    """Return a table of the arrays of each estimator, by who sees them."""
    rows = []
    for name, estimator in estimators().items():
        seen: dict[str, list[str]] = {verb: [] for verb in _SEEN}
        for step, array, _, meaning, verb in _releases(estimator):
            del step, array
            if verb in seen and meaning not in seen[verb]:
                seen[verb].append(meaning)
        rows.append([f"`{name}`", *("; ".join(seen[verb]) or "–" for verb in _SEEN)])
    return _table(["estimator", *_SEEN.values()], rows)


def policy_keys() -> str:
    """Return the table of a policy's keys, their defaults and what they say."""
    said = _entries(Policy, "Parameters")
    rows = []
    for name, field in Policy.__dataclass_fields__.items():
        default = "all" if field.default is None else str(field.default).lower()
        if name == "roster_period_days":
            default = "never"
        rows.append([f"`{name}`", default, said[name]])
    return _table(["key", "default", "what it says"], rows)


def reference() -> str:
    """Return the reference of every estimator, with the methods that it inherits."""
    return "\n\n".join(
        f"::: unpooled.{name}\n    options: "
        f"{{ inherited_members: [{', '.join(_methods(estimator))}], "
        f"merge_init_into_class: true }}"
        for name, estimator in estimators().items()
    )


_OF_RELEASES = ["step", "array", "size", "what it is", "seen"]
_SEEN = {
    "summed": "added under masks: only the total over all silos is opened",
    "compared": "compared in secret: only signs are learned",
    "computed": "computed in secret: only the result is learned",
    "disclosed": "disclosed, silo by silo, where every policy allows it",
    "exchanged": "sent to neighbours, where every policy allows it",
    "kept": "kept in the silo",
}


def _releases(estimator: type[FederatedEstimator]) -> list[list[str]]:
    return [
        [
            f"`{step.name}`",
            f"`{array}`",
            declared.axes.replace(" ", "×") or "1",
            declared.meaning,
            "kept" if declared.kept else step.verb,
        ]
        for step in steps_of(home_of(estimator.__module__)).values()
        for array, declared in step.declared.items()
    ]


def _methods(estimator: type[FederatedEstimator]) -> list[str]:
    """Return the public methods that the library's own classes give an estimator."""
    own = [kind for kind in estimator.__mro__[1:] if kind.__module__[:8] == "unpooled"]
    names = {
        name
        for kind in own
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and name[0] != "_"
    }
    return sorted(names - {"continuing"})


def _entries(thing: Any, section: str) -> dict[str, str]:
    """Return name -> description of a section of a numpydoc docstring."""
    text = (inspect.getdoc(thing) or "").split(f"\n{section}\n", 1)[1]
    text = re.split(r"\n\n[A-Z]\w+(?: \w+)?\n-+\n", text, maxsplit=1)[0]
    parts = re.split(r"^(\w+(?:, \w+)*) : .*$", text, flags=re.MULTILINE)[1:]
    return {
        name: " ".join(description.split())
        for names, description in zip(parts[::2], parts[1::2], strict=True)
        for name in names.split(", ")
    }


TABLES: Mapping[str, Callable[[], str]] = {
    table.__name__: table
    for table in (rules, releases, what_each_sees, policy_keys, reference)
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with its tables filled in."""
    return _PLACEHOLDER.sub(lambda placeholder: TABLES[placeholder[1]](), markdown)


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
