"""Published attacks, for whatever doors a rogue coordinator stands before.

test_published_attacks.py leads them against parties in one process, and
integration/test_attacks.py against silos that are processes of their own.

References
----------
Huth et al., Accessibility of covariance information creates vulnerability in Federated
Learning frameworks, Bioinformatics 39(9), 2023.

Kariyappa et al., Cocktail Party Attack: Breaking Aggregation-Based Privacy in Federated
Learning Using Independent Component Analysis, ICML 2023.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from chance import RARE
from unpooled.arrays import Array
from unpooled.protocol.view_operations import Derive, Operation, Rows, Select
from wire import COLUMNS, Doors, Rogue, rows

PERSON = 11


def scatter(rogue: Rogue, chain: tuple[Operation, ...], p: int = 3) -> Array:
    """Return raw products of columns, by the library's own steps, about zero."""
    squares = rogue.totals("pca.local_squares", {"mean": np.zeros(p)}, chain)["squares"]
    return rogue.totals("pca.local_scatter", {"squares": squares}, chain)["scatter"]


def marked(tables: dict[str, Array], whose: str = "b") -> dict[str, Array]:
    """Make x1 x0 again, but for one person: a corrected reading, say."""
    tables = {name: X.copy() for name, X in tables.items()}
    for X in tables.values():
        X[:, 1] = X[:, 0]
    tables[whose][PERSON, 1] += 1.0
    return tables


def person_and_columns(
    columns: tuple[str, ...] = COLUMNS,
) -> tuple[Operation, ...]:
    """One column that is 1 on one person's row and 0 elsewhere, and all others."""
    onto = np.vstack([[-1.0, 1.0, 0.0], np.eye(3)])
    public = {"mean": np.zeros(3), "components": onto, "scale": np.ones(4)}
    names = tuple(f"y{j}" for j in range(4))
    return Select(columns), Derive("pca.projected", names, public)


def with_a_hole(tables: dict[str, Array], whose: str = "b") -> dict[str, Array]:
    """Make one cell missing."""
    tables = {name: X.copy() for name, X in tables.items()}
    tables[whose][PERSON, 1] = np.nan
    return tables


def filled(value: float, columns: tuple[str, ...] = COLUMNS) -> tuple[Operation, ...]:
    """Fill missing cells of the second column with a number of one's own."""
    public = {"statistics": np.array([0.0, value, 0.0])}
    return Select(columns), Derive("imputer.imputed", columns, public)


def record_from_fills(rogue: Rogue, low: float, high: float) -> Array:
    """Products with a filled column are linear in the filling; the slope is a row."""
    rogue.observed("imputer")
    more = scatter(rogue, filled(high, rogue.columns))[1]
    less = scatter(rogue, filled(low, rogue.columns))[1]
    return (more - less)[[0, 2]] / (high - low)


def first_row(
    complement: bool = False, columns: tuple[str, ...] = COLUMNS
) -> tuple[Operation, ...]:
    """A vector with a single 1 over the rows, or a single 0, as a split."""
    return Select(columns), Rows(0, 0, 1 / 30, complement, -1)


def column_sums(
    doors: Doors,
    names: Sequence[str],
    step: str = "",
    columns: tuple[str, ...] = COLUMNS,
) -> Array:
    """The column sums of some silos, by a scaler's steps, in a study of its own."""
    study = f"study-of-{'-'.join(names)}"
    rogue = Rogue(doors, names, study=study, columns=columns)
    rogue.enter()
    return (rogue.totals(step) if step else rogue.observed("scaler"))["total"]


# --- independent components of what silos send ----------------------------------------

MANY = 1500
COINS = tuple(f"c{j}" for j in range(MANY))
ABOUT = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)


def two_valued(names: Sequence[str]) -> tuple[dict[str, Array], Array]:
    """Three silos whose columns' means and spreads are coins: (6, MANY) secrets.

    The squares of a column about c are n (spread² + (mean - c)²) = n (spread² + 1 + c²
    - 2 c mean) for means of ±1: what a silo sends in rounds with different c are
    mixtures of its two vectors of coins.
    """
    rng = np.random.default_rng(3)
    coins = rng.choice([-1.0, 1.0], (len(names), 2, MANY))
    z = np.where(np.arange(30) % 2, 1.0, -1.0)
    tables = {
        name: mean + (1.0 + 0.5 * spread) * z[:, None]
        for name, (mean, spread) in zip(names, coins, strict=True)
    }
    return tables, coins.reshape(-1, MANY)


def unmixed(
    rogue: Rogue, secrets: Array, n_components: int | None
) -> tuple[Array, int]:
    """Return each secret's best correlation with a component, and how many those are.

    A row of what is unmixed is what one silo sent in one round; of masked words, a row
    for each 64 bits of the number.
    """
    from sklearn.decomposition import FastICA

    seen = []
    for c in ABOUT:
        about = {"mean": np.full(MANY, c)}
        for reply in rogue.step("pca.local_squares", about).values():
            words = reply.arrays["squares"][:MANY]  # behind them is a guard word
            seen.append(words.reshape(MANY, -1).astype(float))
    ica = FastICA(n_components, max_iter=25, random_state=0)
    with warnings.catch_warnings():
        # On noise it has nothing to converge to.
        warnings.simplefilter("ignore")
        components = ica.fit_transform(np.hstack(seen)).T
    k = len(components)
    return np.abs(np.corrcoef(components, secrets)[:k, k:]).max(axis=0), k


def by_chance(k: int, n_secrets: int) -> float:
    """Return a correlation that k components of noise exceed with chance below `RARE`.

    The secrets are fair coins u, independent of the words and so of any component w of
    length 1 made of them. By Hoeffding |w . u| exceeds t sqrt(d) with probability at
    most 2 exp(-d t² / 2); at the t below one of all pairs does with at most `RARE`. A
    coin's sample deviation, by which a correlation divides too, is above 0.99.
    """
    return np.sqrt(2 * np.log(2 * n_secrets * k / RARE) / MANY) / 0.99


def tables_of(names: Sequence[str], n: int = 30) -> dict[str, Array]:
    """Rows of each silo."""
    return {name: rows(n, seed=i) for i, name in enumerate(names)}
