"""The table and the figure of how different silos are."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 30
_HEADS = ("what", "share", "F", "p", "p adjusted", "spread F", "spread p")


class SiteTable:
    """What a fitted `Heterogeneity` shows."""

    columns_: list[str]
    eta_squared_: Float[Array, " p"]
    n_silos_: int
    n_samples_: int

    def table(self) -> "pa.Table":
        """Return a row for each column, and for each component where there are any.

        Returns
        -------
        pyarrow.Table
            "what": the column's name, or "component 1"; "share" of the variance that is
            between silos (eta squared); "F", "p" and "p adjusted" of equal means, the
            latter by Holm's procedure among columns or components; "spread F" and
            "spread p" of equal spreads.
        """
        import pyarrow as pa

        check_is_fitted(self)
        found: dict[str, list[Any]] = {head: [] for head in _HEADS}
        for prefix, names in self._parts().items():
            found["what"] += names
            for head, name in zip(_HEADS[1:], _NAMES, strict=True):
                found[head] += getattr(self, f"{prefix}{name}").tolist()
        return pa.table(found)

    def figure(self) -> "Figure":
        """Return a picture of the table: bars of shares, by column and component."""
        from matplotlib.figure import Figure

        check_is_fitted(self)
        parts = self._parts()
        rows = [min(len(names), _MOST) for names in parts.values()]
        figure = Figure(figsize=(7.0, 1.0 * len(rows) + 0.24 * sum(rows)))
        grid = figure.subplots(len(rows), squeeze=False, height_ratios=rows)[:, 0]
        for axes, prefix in zip(grid, parts, strict=True):
            self.draw(axes, prefix, "black", "tab:blue", "tab:gray")
        figure.set_layout_engine("constrained")
        return figure

    def draw(
        self, axes: "Axes", prefix: str, ink: str, accent: str, second: str
    ) -> list[str]:
        """Draw the shares of columns (prefix "") or components ("component_").

        Parameters
        ----------
        axes : matplotlib Axes
            To draw into.
        prefix : str
            Of the attributes.
        ink, accent, second : str
            Colours of text, of shares whose adjusted p-value is below 0.05, of others.

        Returns
        -------
        list of str
            What is drawn, from the top; of many columns those of the largest shares.
        """
        names = self._parts()[prefix]
        shares = np.nan_to_num(getattr(self, f"{prefix}eta_squared_"))
        firm = getattr(self, f"{prefix}p_adjusted_") < 0.05
        order = np.arange(len(names))
        if not prefix:
            order = np.argsort(-shares, kind="stable")[:_MOST]
        place = np.arange(len(order))
        colours = [accent if firm[j] else second for j in order]
        axes.barh(place, 100 * shares[order], height=0.62, color=colours)
        axes.set_ylim(len(order) - 0.4, -0.6)
        axes.set_xlim(0, max(5.0, 108 * float(shares[order].max())))
        shown = [names[int(j)] for j in order]
        axes.set_yticks(place, shown, color=ink, parse_math=False)
        axes.set_xlabel("share of the variance between silos, %", color=ink)
        return shown

    def _parts(self) -> dict[str, list[str]]:
        parts = {"": list(self.columns_)}
        shares = vars(self).get("component_eta_squared_")
        if shares is not None:
            parts["component_"] = [f"component {j + 1}" for j in range(len(shares))]
        return parts

    def __str__(self) -> str:
        """Return the table as text, or how the estimator was made."""
        if not hasattr(self, "eta_squared_"):
            return repr(self)
        words = ("", "between", "F", "p adjusted", "spread p")
        head = "{:<16}{:>10}{:>12}{:>12}{:>12}".format(*words)
        line = (
            "{what:<16.16}{share:>10.1%}{F:>12.2f}{p adjusted:>12.2g}{spread p:>12.2g}"
        )
        rows = [line.format_map(row) for row in self.table().to_pylist()]
        return "\n".join(
            [f"{self.n_silos_} silos, {self.n_samples_:,} rows", head, *rows]
        )


_NAMES = (
    "eta_squared_",
    "f_statistic_",
    "p_value_",
    "p_adjusted_",
    "spread_f_statistic_",
    "spread_p_value_",
)
