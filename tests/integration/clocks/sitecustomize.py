"""Python reads this when it starts with this folder on its path: a clock that is wrong.

The clock of Python's own modules is shifted by CLOCK_SHIFT seconds; that of the TLS
library beneath is not.
"""

import datetime
import os
import time

_SHIFT = int(os.environ["CLOCK_SHIFT"])
_time, _time_ns = time.time, time.time_ns
_datetime = datetime.datetime


class _Same(type(_datetime)):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _datetime)


class _Shifted(_datetime, metaclass=_Same):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return _datetime.now(tz) + datetime.timedelta(seconds=_SHIFT)

    @classmethod
    def utcnow(cls) -> datetime.datetime:
        return cls.now(datetime.UTC).replace(tzinfo=None)


time.time = lambda: _time() + _SHIFT
time.time_ns = lambda: _time_ns() + _SHIFT * 10**9
datetime.datetime = _Shifted
