"""Six views of handwritten digits: exact components, and the published approximation.

    UNPOOLED_DATA=... python examples/digits.py

Six parties computed different features of the same 2,000 digits (pixels, Fourier and
Karhunen-Loève coefficients, profiles, Zernike moments, morphology). The example prints
the accuracy with which nearest neighbours on two and on ten joint components classify
the digits, and that of each party alone.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import unpooled as up

if "UNPOOLED_DATA" not in os.environ:
    raise SystemExit(
        "Set UNPOOLED_DATA to the folder with handwritten_mfeat.npz: the Multiple "
        "Features data of the UCI repository, with a (2000, q) array view0_pix, "
        "view1_fou, ... for each of the six views, and the digits as y."
    )
digits = np.load(Path(os.environ["UNPOOLED_DATA"]) / "handwritten_mfeat.npz")
names = [name for name in digits.files if name.startswith("view") and "_n" not in name]
views = {name.partition("_")[2]: digits[name].astype(float) for name in names}

rules = up.Policy(allow_row_level=True)
federation = up.simulate(views, partition="columns", policy=rules)
scaled = up.StandardScaler().fit(federation).transform(federation)

for k in (2, 10):
    for model in (up.PCA(k), up.VFedPCA(k, rounds=2, random_state=0)):
        scores = model.fit(scaled).transform(scaled)
        accuracy = cross_val_score(KNeighborsClassifier(5), scores, digits["y"]).mean()
        print(f"{type(model).__name__}, {k} components of six views: {accuracy:.1%}")
for name, X in views.items():
    alone = make_pipeline(up.StandardScaler(), up.PCA(min(10, X.shape[1])))
    one = up.simulate({name: X}, secure_sum="plain", policy=up.Policy.open())
    scores = alone.fit(one).transform(X)
    accuracy = cross_val_score(KNeighborsClassifier(5), scores, digits["y"]).mean()
    print(f"{name} alone: {accuracy:.1%}")
