"""The report as one file that loads nothing else: no script, no font, no image.

    facts ── wording, cautions, summaries ──> texts, tables, figures ─ template ─> page

Names of silos, columns and studies come from outside. They reach the page through the
template's escaping only, and the page's own security policy forbids it to load or run
anything.
"""

import inspect
import os
import reprlib
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from unpooled.federation.federation import Federation
from unpooled.report.facts import Facts, facts_of
from unpooled.report.page import environment
from unpooled.report.statement import statement_of
from unpooled.report.text.cautions import cautions
from unpooled.report.text.costs_and_signatures import costs, seals, silos
from unpooled.report.text.methods import methods
from unpooled.report.text.people import people_answer
from unpooled.report.text.policies import rules_table
from unpooled.report.text.what_follows import could_learn, could_not_learn
from unpooled.report.text.wording import (
    shown_as_they_are,
    veiled,
    what_came_in,
    what_left,
    what_stayed,
)
from unpooled.report.versions import versions
from unpooled.results.formats import byte_size, counted
from unpooled.results.subjects import subject
from unpooled.results.summary import Summary

__all__ = ["Facts", "facts_of", "render", "report"]


def report(
    model: Any,
    federation: Federation,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    purpose: Any = None,
    controllers: Any = None,
    contact: Any = None,
    legal_basis: Any = None,
    retention: Any = None,
) -> Path:
    """Write a page on what was fitted, what left each silo, and the results.

    Parameters
    ----------
    model : estimator, Pipeline, or a list or dict of estimators
        Fitted on the federation.
    federation : Federation
        Its whole ledger is reported, other fits included.
    path : str or path
        The HTML file to write; its folder is made if it is not there.
    title : str, optional
        The heading; by default what the last model does.
    purpose, contact, legal_basis, retention : str, optional
        What is printed for data protection, as the keys of these names in a study file.
    controllers : str or sequence of str, optional
        The organisations that are responsible for the data.

    Returns
    -------
    Path
        Where the report is.

    Notes
    -----
    Nothing leaves a silo for the report. It has names of silos and columns, totals and
    fitted models, and no silo's own numbers.
    """
    given = {
        "purpose": purpose,
        "controllers": controllers,
        "contact": contact,
        "legal_basis": legal_basis,
        "retention": retention,
    }
    facts = replace(facts_of(model, federation, title), statement=statement_of(given))
    text = render(facts)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def render(facts: Facts) -> str:
    """Return the report as HTML; the same facts give the same text."""
    return _template().render(
        facts=facts,
        when=_when(facts),
        summary=_summary(facts),
        figures=_key_figures(facts),
        cautions=cautions(facts),
        models=[_parameters(name, model) for name, model in facts.models],
        silos=silos(facts),
        shown=shown_as_they_are(facts),
        sizes_hidden=facts.partition == "rows"
        and facts.protection == "masked"
        and not shown_as_they_are(facts),
        rules=rules_table(facts),
        left=what_left(facts),
        came_in=what_came_in(facts),
        n_came_in=sum(0 not in line.shape for line in facts.lines("in")),
        stayed=what_stayed(facts),
        n_stayed=sum(line.visibility == "kept" for line in facts.ledger),
        people=people_answer(facts),
        methods=methods(facts),
        could=could_learn(facts),
        could_not=could_not_learn(facts),
        results=_results(facts),
        seals=seals(facts),
        head=facts.ledger[-1].hash if len(facts.ledger) else "",
        costs=costs(facts),
        versions=versions(),
    )


@cache
def _template() -> jinja2.Template:
    return environment().get_template("template.html.jinja")


def _results(facts: Facts) -> list[tuple[int, Summary]]:
    """Return numbered summaries: the last step's, how it was judged, and the others'.

    The study is for its last step; the others prepare it.
    """
    found = list(enumerate(facts.summaries, 1))
    judged = [] if facts.evaluation is None else [(0, facts.evaluation)]
    return found[-1:] + judged + found[:-1]


def _summary(facts: Facts) -> str:
    """Return the study in one sentence."""
    N, m = facts.n_rows, len(facts.parties)
    arrays, n_bytes = _most_sent(facts)
    start = (
        f"{_spelled(m).capitalize()} {'silo' if m == 1 else 'silos'} computed a joint "
        f"result from {f'{N:,} rows' if N else 'rows'} that stayed where they were"
    )
    if not arrays:
        return f"{start}; no numbers left a silo."
    sent = f"each sent {counted(arrays, 'array')} of numbers ({byte_size(n_bytes)})"
    fate = f"which the coordinator could open only as totals over all {_spelled(m)}"
    if facts.protection != "masked":
        fate = "unprotected, so that the coordinator could read every silo’s own"
    elif shown_as_they_are(facts):
        fate = (
            f"some disclosed as they are, the others only as totals over all "
            f"{_spelled(m)}"
        )
    elif veiled(facts):
        fate = (
            f"which could be opened only as totals over all {_spelled(m)}, some by the "
            f"silos alone"
        )
    return f"{start}: {sent}, {fate}."


def _most_sent(facts: Facts) -> tuple[int, int]:
    """Return arrays and bytes of the silo that sent most; if none refused, of each."""
    out = facts.lines("out")
    sent = [
        (sum(party in line.parties for line in out), facts.ledger.bytes_out(party))
        for party in facts.parties
    ]
    return max(sent, default=(0, 0))


def _spelled(n: int) -> str:
    """Return a small number as a word."""
    words = "no one two three four five six seven eight nine ten eleven twelve".split()
    return words[n] if n < len(words) else f"{n:,}"


def _key_figures(facts: Facts) -> list[tuple[str, str]]:
    rounds = {(x.study, x.round) for x in facts.ledger}
    arrays, n_bytes = _most_sent(facts)
    size, unit = byte_size(n_bytes).split(" ")
    found = [
        (f"{len(facts.parties)}", "silo" if len(facts.parties) == 1 else "silos"),
        (f"{len(facts.feature_names):,}", "columns"),
        (f"{len(rounds):,}", "round" if len(rounds) == 1 else "rounds"),
        (f"{arrays:,}", "arrays from each silo"),
        (size, f"{unit} from each silo"),
    ]
    if facts.n_rows:
        found.insert(1, (f"{facts.n_rows:,}", "rows in all"))
    return found


def _when(facts: Facts) -> str:
    times = [datetime.fromisoformat(x.time) for x in facts.ledger if x.time]
    if not times:
        return ""
    first, last = min(times), max(times)
    start = f"{first.day} {first:%B %Y, %H:%M}"
    end = f"{last:%H:%M}"
    if first.date() != last.date():
        end = f"{last.day} {last:%B %Y, %H:%M}"
    return f"{start} UTC" if start.endswith(end) else f"{start} to {end} UTC"


def _parameters(name: str, model: Any) -> dict[str, Any]:
    """Return a model's parameters: those that were chosen, and those at defaults."""
    values = {k: reprlib.repr(v) for k, v in model.get_params(deep=False).items()}
    signature = inspect.signature(type(model)).parameters
    defaults = {k: reprlib.repr(signature[k].default) for k in values if k in signature}
    chosen = {k: text for k, text in values.items() if text != defaults.get(k)}
    return {
        "name": name,
        "model": type(model).__name__,
        "subject": subject(model),
        "chosen": chosen,
        "defaults": {k: text for k, text in values.items() if k not in chosen},
    }
