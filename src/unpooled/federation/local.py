"""A federation whose parties all live in this process.

    Federation ─ Coordinator ─ LocalChannel ─ Party.handle ─ each party's table

The messages, keys, masks and policies are those of a study between organisations; only
the network is missing.
"""

import functools
import operator
import reprlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

from unpooled.coordinator.channel import LocalChannel
from unpooled.coordinator.coordinator import Coordinator
from unpooled.data.parties import open_parties
from unpooled.data.study_columns import agree_on_categorical, agree_on_columns
from unpooled.data.table import Table
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.following import FollowedPrograms
from unpooled.federation.layout import Layout
from unpooled.federation.matching import agree_on_rows, how_to_match
from unpooled.federation.progress import CallProgress
from unpooled.ledger import Ledger
from unpooled.party.party import Party
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.same_rows import check_distinct
from unpooled.protocol.message import digest
from unpooled.secure.keys.roster import MOST_COMPUTING, Identity, Roster


def simulate(
    parties: Mapping[Any, Any],
    partition: str = "rows",
    label: str | None = None,
    ids: str | None = None,
    secure_sum: str = "masked",
    policy: Policy | Mapping[Any, Any] | str | Path | None = None,
    random_state: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    aligned: bool = False,
    study: str | None = None,
    block_mb: float | int | None = None,
    follow: bool = False,
    verbose: bool | None = None,
    distinct: bool = False,
    categorical: Sequence[str] | None = None,
) -> Federation:
    """Make a federation whose parties all live in this process.

    The protocol is the one used between organisations: identities, fresh keys for each
    fit, masks, policies and the ledger are all real; only the network is missing.

    Parameters
    ----------
    parties : mapping of str or int to source
        Each party's rows by its name: a 2-D array or sparse array, a pandas, polars or
        pyarrow table, the path of a CSV, Parquet, Arrow, .npy or .npz file, an address
        of a database, or a `Table`, which `open_source` returns also for files with
        another separator, decimal mark or encoding.
    partition : {"rows", "columns"}, default "rows"
        Whether parties have different rows with the same columns, or the reverse.
    label : str, optional
        A column that is kept beside the features, such as a diagnosis.
    ids : str, optional
        A column that identifies rows, never a feature. On a column partition rows are
        matched by it: a private set intersection finds the ids that all silos have,
        and the federation has their rows. Without ids the tables must be aligned;
        pandas frames are, by the labels of their rows, in the order of the first.
    secure_sum : {"masked", "plain"}, default "masked"
        "plain" adds numbers in clear: a reference for tests, without protection.
    policy : Policy, mapping or path, optional
        The policy of every silo, as a `Policy`, its keys, or a TOML file with them; by
        default that of a new silo, which refuses fewer than three parties. A mapping
        by party name gives each its own.
    random_state : int, optional
        Seed of folds and splits without one of their own, and of methods that draw
        starting values.
    columns : sequence of str, optional
        On a row partition, the feature columns; other columns may hold text, or exist
        at some silos only. On a column partition each source has its own.
    exclude : sequence of str, optional
        In place of `columns`: columns of every silo that are not features.
    aligned : bool, default False
        Whether the silos' tables have the same ids in the same order. Nothing is
        matched then; a keyed digest of the ids is compared.
    study : str, optional
        The study's name in ledger and report.
    block_mb : float, optional
        Megabytes that a block of a silo's rows may take as float64; 64 by default.
    follow : bool, default False
        Whether every silo runs each call itself, on totals that it checks, and refuses
        a request that differs, as silos do between organisations. In one process the
        coordinator and the silos are one program, which need not distrust itself.
    verbose : bool, optional
        Whether the calls of all estimators on this federation show their rounds, on
        standard error: True in any case, and False never. By default a bar is shown in
        a terminal, or a notebook that has ipywidgets, for calls of more than two
        seconds; in another notebook a line every ten seconds.
    distinct : bool, default False
        Whether two silos with the same rows, in whatever order, are an error. Digests
        of their rows are compared in this process, under a key that is drawn for it.
    categorical : sequence of str, optional
        Feature columns whose cells are names of categories, of text or of numbers (see
        `open_source`); on a column partition those of all silos. Names of fewer rows of
        a silo than its policy asks for (`min_own_cells`) are read as one category
        there, "other".

    Returns
    -------
    Federation
        Takes the place of scikit-learn's X: ``PCA().fit(federation)``.

    Raises
    ------
    DataError
        When a source cannot be read, columns differ between silos, or a column is not
        numeric; the message names silo and column. When ids occur twice or are
        missing, or no id is common.
    """
    federation, silos = in_one_process(
        parties,
        partition=partition,
        label=label,
        ids=ids,
        secure_sum=secure_sum,
        policy=policy,
        random_state=random_state,
        study=study,
        columns=columns,
        exclude=exclude,
        aligned=aligned,
        block_mb=block_mb,
        follow=follow,
        distinct=distinct,
        categorical=categorical,
    )
    agree_on_rows(federation)
    note_common_rows(federation, silos)
    assert isinstance(federation.coordinator, Coordinator)
    CallProgress(federation.coordinator, verbose)
    return federation


def in_one_process(
    parties: Mapping[Any, Any],
    *,
    partition: str,
    label: str | None,
    ids: str | None,
    secure_sum: str,
    policy: Policy | Mapping[Any, Any] | str | Path | None,
    random_state: int | None,
    study: str | None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    aligned: bool = False,
    ledger: Ledger | None = None,
    first_round: int = 1,
    block_mb: float | int | None = None,
    follow: bool = False,
    distinct: bool = False,
    categorical: Sequence[str] | None = None,
) -> tuple[Federation, dict[str, Party]]:
    """Return the federation and its parties by name.

    Rows are not matched yet: `agree_on_rows` does that.

    Parameters
    ----------
    parties, partition, label, ids, secure_sum, policy, random_state, study
        As of `simulate`.
    columns, exclude, aligned, block_mb, follow, distinct, categorical
        As of `simulate`.
    ledger : Ledger, optional
        To be continued, from `first_round` on, when a study is resumed.
    first_round : int, default 1
        Number of the next round.
    """
    _check_arguments(parties, partition, secure_sum)
    parties = _by_name(parties)
    if isinstance(policy, Mapping):
        policy = {_named(key): rules for key, rules in policy.items()}
    tables = open_parties(
        parties, partition, label, ids, block_mb, columns, exclude, categorical
    )
    if distinct:
        check_distinct(tables, secrets.token_bytes(32))
    policies = _policies(policy, tuple(tables))
    layout = _layout(tables, partition, how_to_match(partition, ids, aligned))
    identities = {name: Identity() for name in tables}
    roster = _roster(identities)
    silos = {
        name: Party(
            name,
            table,
            policies[name],
            identities[name],
            roster,
            plain=secure_sum == "plain",
            partition=partition,
            # The key depends on the name alone: in one process the same seed must give
            # the same folds again.
            cut_key=digest(name.encode()).encode(),
            follow=FollowedPrograms(interactive=True) if follow else None,
        )
        for name, table in tables.items()
    }
    if not follow:
        # As silos that follow find it in the totals.
        rows = {name: table.n_rows for name, table in tables.items()}
        pooled = functools.lru_cache(lambda names: sum(rows[name] for name in names))
        for silo in silos.values():
            silo.simulated_rows = pooled
    coordinator = Coordinator(
        LocalChannel({name: silo.handle for name, silo in silos.items()}),
        roster,
        study=study or f"study-{secrets.token_hex(4)}",
        protection=secure_sum,
        ledger=ledger,
        first_round=first_round,
        partition=partition,
        follows=follow,
    )
    coordinator.explain = lambda party, rule: silos[party].explained.get(rule, "")
    coordinator.simulated_carried = lambda: {
        name: columns
        for name, silo in silos.items()
        if (columns := silo.noteworthy_columns)
    }
    coordinator.policies = {name: rules.as_dict() for name, rules in policies.items()}
    federation = Federation(
        coordinator,
        layout=layout,
        named=all(table.named for table in tables.values()),
        label=label,
        random_state=random_state,
    )
    return federation, silos


def note_common_rows(federation: Federation, silos: Mapping[str, Party]) -> None:
    """Set `Layout.rows_of` to the common rows of parties that matched theirs.

    Only possible in one process: a silo's rows in the common order never leave it.
    """
    rows_of = {
        name: rows
        for name, silo in silos.items()
        if (rows := silo.aligned_rows.common_rows(federation.coordinator.study))
        is not None
    }
    federation.layout = replace(federation.layout, rows_of=rows_of)


def _check_arguments(
    parties: Mapping[Any, Any], partition: str, secure_sum: str
) -> None:
    if not isinstance(parties, Mapping) or not parties:
        raise DataError(
            f"A federation needs at least one party, as {{name: source}}; this is "
            f"{'empty' if isinstance(parties, Mapping) else type(parties).__name__}. "
            f"unpooled.partition_rows splits one table into parties."
        )
    if partition not in ("rows", "columns"):
        raise DataError(
            f'partition={reprlib.repr(partition)}; choose "rows" or "columns".'
        )
    if secure_sum not in ("masked", "plain"):
        raise DataError(f'secure_sum={secure_sum!r}; choose "masked" or "plain".')


def _by_name(parties: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the sources by the names of the parties; a number is named as written."""
    named = {_named(name): source for name, source in parties.items()}
    for name, given in zip(named, parties, strict=False):
        if not isinstance(name, str) or not name:
            raise DataError(
                f"A party's name is a text that is not empty, or a whole number; this "
                f"is {given!r}. Name them with {{str(name): rows for name, rows in "
                f"parties}}."
            )
    if len(named) < len(parties):
        raise DataError(
            f"Two parties have the same name: {', '.join(map(repr, parties))}. A "
            f"number is named as it is written."
        )
    return named


def _named(name: Any) -> Any:
    # groupby and unique give numbers of NumPy, and groupby of a list tuples of one.
    if isinstance(name, tuple) and len(name) == 1:
        name = name[0]
    if isinstance(name, Integral) and not isinstance(name, bool):
        return str(operator.index(name))
    return name


def _roster(identities: Mapping[str, Identity]) -> Roster:
    keys = {name: identity.public for name, identity in identities.items()}
    # Between organisations the silos pin a committee; here the first parties are one.
    many = len(keys) > MOST_COMPUTING
    return Roster(keys, sorted(keys)[:MOST_COMPUTING] if many else ())


def _policies(
    policy: Policy | Mapping[Any, Any] | str | Path | None, parties: tuple[str, ...]
) -> dict[str, Policy]:
    if isinstance(policy, Mapping) and policy and set(policy) <= set(parties):
        return {name: Policy.of(policy.get(name)) for name in parties}
    return dict.fromkeys(parties, Policy.of(policy))


def _layout(tables: Mapping[str, Table], partition: str, matching: str) -> Layout:
    by_party = {name: table.columns for name, table in tables.items()}
    coded = {name: table.categorical for name, table in tables.items()}
    if partition == "rows":
        columns = agree_on_columns(by_party)
        return Layout.of_rows(tables, columns, agree_on_categorical(columns, coded))
    rows = {name: table.n_rows for name, table in tables.items()}
    names = [name for own in coded.values() for name in own]
    return Layout.of_columns(by_party, rows, matching, names)
