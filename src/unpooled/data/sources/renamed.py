"""A file whose columns have other names than those of a study.

    rename = { ILL = "ill", Alter = "age" }    the file's name = the study's

Hospitals name the same column as their systems do: SAS transport files have capital
letters alone. Everything else that names a column, in a silo's file or a study's, has
the study's names.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import final

import pyarrow as pa

from unpooled.data.columns import Roles, check_known
from unpooled.data.sources.streamed import Batches, Reader, Survey, naming_missing


@final
class RenamedReader(Reader):
    """Reads a file under other names of its columns.

    Parameters
    ----------
    reader : Reader
        Reads the file, whose names it has.
    source : str
        What to call the file in an error.
    names : mapping of str to str
        By the name in the file, the study's; columns without one keep theirs.
    missing : mapping of str to a collection of str
        As of `Reader`, by the study's names.
    """

    def __init__(
        self,
        reader: Reader,
        source: str,
        names: Mapping[str, str],
        missing: Mapping[str, Collection[str]],
    ) -> None:
        self._reader, self._source, self.missing = reader, source, missing
        self._new, self._own = names, {new: own for own, new in names.items()}
        reader.missing = {self._in_file(name): missing[name] for name in missing}

    def names(self) -> list[str]:
        """Return the study's names, in the order of the file."""
        names = self._reader.names()
        check_known(tuple(self._new), names, f"rename: {self._source}")
        return list(map(self._in_study, names))

    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Return what the file's survey finds, under the study's names."""
        own = replace(
            roles,
            label=roles.label and self._in_file(roles.label),
            ids=roles.ids and self._in_file(roles.ids),
            also=tuple(map(self._in_file, roles.also)),
            categorical=tuple(map(self._in_file, roles.categorical)),
        )
        found = self._reader.survey(list(map(self._in_file, features)), own)
        return Survey(
            found.n_rows,
            {self._in_study(name): kind for name, kind in found.types.items()},
            {self._in_study(name): has for name, has in found.has_missing.items()},
            {self._in_study(name): text for name, text in found.text.items()},
        )

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield the file's batches under the study's names."""
        own = {self._in_file(name): kind for name, kind in types.items()}
        # closing: a pass that is abandoned must not keep the file open.
        with closing(self._reader.batches(own)) as batches:
            for batch in batches:
                names = list(map(self._in_study, batch.column_names))
                yield batch.rename_columns(names)

    def hint(self) -> str:
        """Return the file's hint, which may show a column as a key of `missing`."""
        hint = self._reader.hint()
        for own, new in self._new.items():
            if hint == naming_missing(own):
                return naming_missing(new)
        return hint

    def _in_file(self, name: str) -> str:
        return self._own.get(name, name)

    def _in_study(self, name: str) -> str:
        return self._new.get(name, name)
