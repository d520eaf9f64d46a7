"""A federation of a study whose parties are all simulated in this process."""

from collections.abc import Mapping, Sequence

from unpooled.data.parties import categorical_of, has_label
from unpooled.data.sources.database_address import where_paths_start
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError, StudyError
from unpooled.federation.federation import Federation
from unpooled.federation.local import in_one_process
from unpooled.ledger import Ledger
from unpooled.party.party import Party
from unpooled.study.study_file import StudyFile


def simulated_federation(
    study: StudyFile,
    ledger: Ledger | None = None,
    first_round: int = 1,
    *,
    follow: bool = False,
) -> tuple[Federation, dict[str, Party]]:
    """Open the parties' sources; return the federation and the simulated parties.

    Parameters
    ----------
    study : StudyFile
        Every party must have a source.
    ledger : Ledger, optional
        The ledger to continue.
    first_round : int
        Number of the first round.
    follow : bool, default False
        As of `unpooled.simulate`.
    """
    tables, categorical = {}, _categorical(study)
    for name, party in study.parties.items():
        where = f"{study.path.name}, [parties.{name}]"
        if party.source is None:
            raise StudyError(
                f"{where} source: this key is missing. It takes a text; only a study "
                f"over a consortium (a kit) leaves it to the silo."
            )
        labelled = study.partition == "rows" or has_label(
            party.source, study.label, study.ids, **party.format
        )
        try:
            tables[name] = open_source(
                party.source,
                label=study.label if labelled else None,
                ids=study.ids,
                columns=study.columns,
                exclude=(*study.exclude, *party.exclude),
                categorical=categorical[name],
                missing=party.missing,
                plausible=party.plausible,
                block_mb=party.block_mb,
                **party.format,
                **party.rows,
            )
        except DataError as wrong:
            start = where_paths_start(party.source, study.path)
            raise DataError(f"{where}: {wrong}{start}") from wrong
    try:
        federation, parties = in_one_process(
            tables,
            partition=study.partition,
            label=study.label,
            ids=study.ids,
            aligned=study.aligned,
            distinct=study.distinct,
            secure_sum=study.secure_sum,
            policy={name: party.policy for name, party in study.parties.items()},
            random_state=study.random_state,
            study=study.name,
            ledger=ledger,
            first_round=first_round,
            follow=follow,
        )
    except DataError as wrong:
        raise DataError(f"{study.path.name}, [parties]: {wrong}") from wrong
    if study.columns and study.columns != federation.feature_names:
        # Tables have the order of their sources; the study has its own.
        federation = federation.select(study.columns)
    return federation, parties


def _categorical(study: StudyFile) -> Mapping[str, Sequence[str]]:
    """Return the columns of categories of each party."""
    parties = study.parties
    if study.partition == "rows" or not study.categorical:
        return dict.fromkeys(parties, study.categorical)
    sources = {name: party.source for name, party in parties.items()}
    forms = {name: party.format for name, party in parties.items()}
    try:
        return categorical_of(sources, study.categorical, study.ids, forms)
    except DataError as wrong:
        raise DataError(f"{study.path.name}, [study] categorical: {wrong}") from wrong
