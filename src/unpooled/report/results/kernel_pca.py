"""Pictures and tables of kernel components: eigenvalues, never anybody's scores."""

from typing import Any

import numpy as np
from markupsafe import Markup

from unpooled.arrays import Array, Float
from unpooled.report.exhibit import Exhibit
from unpooled.report.exhibits import Table, number, per_cent
from unpooled.report.plots.svg import ACCENT, INK, drawing, settings, svg

MOST = 30
_KERNELS = {
    "rbf": "exp(−γ ‖x − y‖²)",
    "linear": "x·y",
    "poly": "(γ x·y + c)^d",
    "sigmoid": "tanh(γ x·y + c)",
}


def spectrum(model: Any, name: str) -> Exhibit:
    """Return the leading eigenvalues of the centred kernel matrix."""
    values = np.asarray(model.eigenvalues_)
    k = min(len(values), MOST)
    first = float(values[0]) if k and values[0] > 0 else 1.0
    rows = [
        (f"{j + 1}", number(float(value)), per_cent(float(value) / first))
        for j, value in enumerate(values[:k])
    ]
    note = "" if k == len(values) else f"Of {len(values):,}, the first {k} are shown."
    table = Table("", ("Component", "Eigenvalue", "Of the first"), rows, note)
    picture = _bars(
        values[:k] / first,
        name,
        f"Bars: eigenvalues 1 to {k} as shares of the first. The numbers are in the "
        f"table below.",
    )
    return Exhibit("Eigenvalues of the kernel matrix", _text(model), [table], picture)


def _text(model: Any) -> str:
    parameters = {"γ": model.gamma_, "c": model.coef0, "d": model.degree}
    formula = _KERNELS[model.kernel]
    used = [f"{n} = {number(float(v))}" for n, v in parameters.items() if n in formula]
    text = f"The kernel is {formula}{', with ' * bool(used)}{', '.join(used)}"
    if model.approximation is None:
        text += ", for every two people."
    else:
        features = model.approximation == "fourier"
        way = "random features" if features else "landmark rows (Nyström’s method)"
        text += f", approximated by {model.n_landmarks:,} {way}."
    return (
        f"{text} Eigenvalues are those of the kernel matrix of {model.n_samples_:,} "
        f"people, centred; divided by {model.n_samples_ - 1:,} they are variances "
        f"along the components. Bars are relative to the first. People are not drawn."
    )


@settings()
def _bars(shares: Float[Array, " k"], name: str, description: str) -> Markup:
    figure, axes = drawing(height=200, left=44, right=8, top=10, bottom=42)
    place = np.arange(1, len(shares) + 1)
    axes.bar(place, 100 * shares, width=0.62, color=ACCENT)
    axes.set_xlim(0.4, len(shares) + 0.6)
    axes.set_ylim(0, 104)
    axes.set_xticks(place[:: max(1, -(-len(shares) // 12))])
    axes.set_yticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)])
    axes.grid(axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel("component", color=INK, labelpad=6)
    return svg(figure, name, "Eigenvalues of the kernel matrix", description)
