"""Joint components of omics data that three laboratories have about the same patients.

    UNPOOLED_DATA=... python examples/omics.py

Each laboratory measured other molecules (mRNA, miRNA, proteins) in tumours of breast
cancer patients. Its patients are in an order of its own, and some are missing. Rows are
matched by id, and no measurement is shown. At the end the result is compared with the
pooled one, which is possible in a simulation only.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn.decomposition
from sklearn.metrics import silhouette_score

import unpooled as up

if "UNPOOLED_DATA" not in os.environ:
    raise SystemExit(
        "Set UNPOOLED_DATA to the folder with tcga_breast_multiomics.npz: the data set "
        "breast.TCGA of the R package mixOmics, with the arrays view0_mrna (150, 200), "
        "view1_mirna (150, 184) and view2_protein (150, 142), and the subtypes as y."
    )
folder = Path(os.environ["UNPOOLED_DATA"])
tumours = np.load(folder / "tcga_breast_multiomics.npz")
views = {"mrna": "view0_mrna", "mirna": "view1_mirna", "protein": "view2_protein"}
rng = np.random.default_rng(0)
laboratories = {}
for name, view in views.items():
    frame = pd.DataFrame(tumours[view].astype(float)).add_prefix(f"{name}_")
    frame["id"] = [f"TCGA-{i:03}" for i in range(len(frame))]
    laboratories[name] = frame.iloc[rng.permutation(len(frame))[:140]]

rules = up.Policy(allow_row_level=True)
federation = up.simulate(laboratories, partition="columns", ids="id", policy=rules)
print(f"{federation.n_rows} of 150 patients are at all three laboratories.")

rows = federation.layout.rows_of
ids = laboratories["mrna"]["id"].iloc[rows["mrna"]].to_numpy()
subtype = tumours["y"][[int(name.removeprefix("TCGA-")) for name in ids]]

scaled = up.StandardScaler().fit(federation).transform(federation)
exact = up.PCA(2).fit(scaled).transform(scaled)
approximate = up.VFedPCA(2, random_state=0).fit(scaled)

joined = np.hstack(
    [
        frame.drop(columns="id").to_numpy()[rows[name]]
        for name, frame in laboratories.items()
    ]
)
joined = (joined - joined.mean(axis=0)) / joined.std(axis=0)
pooled = sklearn.decomposition.PCA(2, svd_solver="full").fit_transform(joined)
signs = np.sign(np.sum(exact * pooled, axis=0))
print(
    f"Scores differ from the pooled ones by {np.abs(exact * signs - pooled).max():.0e}."
)
for name, scores in {
    "all three": exact,
    "all three, VFedPCA": approximate.scores_,
    **{
        view: sklearn.decomposition.PCA(2).fit_transform(
            joined[:, [c.startswith(f"{view}_") for c in federation.feature_names]]
        )
        for view in views
    },
}.items():
    print(
        f"How well subtypes separate by {name}: {silhouette_score(scores, subtype):.3f}"
    )
