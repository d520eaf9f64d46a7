"""Checks for authors of steps and estimators, in the manner of scikit-learn's.

>>> from unpooled.testing import check_estimator, check_step
>>> check_step(local_total, X)  # doctest: +SKIP
>>> check_estimator(Correlation(), X, pooled=correlation_of)  # doctest: +SKIP
"""

from unpooled.testing.estimator_checks import check_estimator
from unpooled.testing.step_checks import check_step

__all__ = ["check_estimator", "check_step"]
