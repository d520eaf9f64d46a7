"""Python reads this when it starts with this folder on its path: a clock that is wrong.

`time.time` is shifted by CLOCK_SHIFT seconds, and with it all times that the engine and
the library write or compare. The clock of the TLS library beneath is not.
"""

import os
import time

_SHIFT = int(os.environ["CLOCK_SHIFT"])
_time, _time_ns = time.time, time.time_ns

time.time = lambda: _time() + _SHIFT
time.time_ns = lambda: _time_ns() + _SHIFT * 10**9
