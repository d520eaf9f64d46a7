"""Results of kernel PCA: eigenvalues, and no person's scores."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import ordinals
from unpooled.results.formats import counted, per_cent, plain_number
from unpooled.results.plots import charts

if TYPE_CHECKING:
    from unpooled.models.kernel_pca.kernel_pca import KernelPCA

_KERNELS = {
    "rbf": "exp(−γ ‖x − y‖²)",
    "linear": "x·y",
    "poly": "(γ x·y + c)^d",
    "sigmoid": "tanh(γ x·y + c)",
}


def kernel_pca_exhibits(model: "KernelPCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted kernel PCA."""
    # Not `getattr`: the silos would be asked for what they keep.
    values = np.asarray(vars(model).get("eigenvalues_", ()))
    if not len(values):
        return []
    k = min(len(values), MOST_ROWS)
    title = "Eigenvalues of the kernel matrix"
    total = vars(model).get("eigenvalue_sum_", 0.0)
    if total > 0:
        shares = values / total
        further = {
            Column("Share", "share", bar=True): shares,
            Column("Cumulative share", "share"): np.cumsum(shares),
        }
        draw, scale = partial(charts.scree, shares[:k]), "shares of all"
    else:
        # The silos know the sum of all; the coordinator only those that are kept.
        first = float(values[0]) if values[0] > 0 else 1.0
        shares = values / first
        further = {Column("Share of the first", "share", bar=True): shares}
        draw, scale = partial(charts.eigenvalues, shares[:k]), "shares of the first"
    table = ResultTable.of(
        "eigenvalues",
        {
            Column("Component"): ordinals(len(values)),
            Column("Eigenvalue", "number"): values,
            **further,
        },
        items="eigenvalues",
    )
    picture = Picture(
        "eigenvalues",
        title,
        f"Bars: eigenvalues 1 to {k} as {scale}, from {per_cent(shares[0])} down to "
        f"{per_cent(shares[k - 1])}. The numbers are in the table below.",
        draw,
        (table.name,),
    )
    text = _text(model)
    if total > 0:
        text += (
            f" {counted(len(values), 'component')} "
            f"{'explains' if len(values) == 1 else 'explain'} "
            f"{per_cent(float(np.sum(shares)))} of the variance in the space of the "
            f"kernel’s features. People are not drawn."
        )
    else:
        text += " Bars are relative to the first. People are not drawn."
    return [Exhibit(title, text, [table], picture)]


def _text(model: "KernelPCA") -> str:
    parameters = {"γ": model.gamma_, "c": model.coef0, "d": model.degree}
    formula = _KERNELS[model.kernel]
    used = [f"{n} = {plain_number(v)}" for n, v in parameters.items() if n in formula]
    text = f"The kernel is {formula}{', with ' * bool(used)}{', '.join(used)}"
    if model.approximation is None:
        text += ", for every pair of people."
    else:
        features = model.approximation == "fourier"
        method = "random features" if features else "landmark rows (Nyström’s method)"
        text += f", approximated by {model.n_landmarks:,} {method}."
    return (
        f"{text} The eigenvalues are those of the centred kernel matrix of "
        f"{model.n_samples_:,} people; divided by {model.n_samples_ - 1:,} they are "
        f"the variances along the components."
    )
