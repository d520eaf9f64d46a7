"""Draw the picture at the top of the README, from the bundled data."""

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.data import heart_disease

ASSETS = Path(__file__).resolve().parents[1] / "docs" / "assets"


def main() -> None:
    """Write docs/assets/heart-biplot.png."""
    federation = up.simulate(heart_disease.load(), label="num", random_state=0)
    filled = make_pipeline(up.SimpleImputer(), up.StandardScaler()).fit(federation)
    scaled = filled.transform(federation)
    pca = up.PCA(5).fit(scaled)
    classes = up.LinearDiscriminantAnalysis().fit(scaled, "num")
    figure, axes = plt.subplots(figsize=(7.0, 5.6), layout="constrained")
    up.BiplotDisplay.from_estimator(pca, classes=classes, ax=axes)
    axes.set_ylim(-2.6, 3.6)
    figure.savefig(ASSETS / "heart-biplot.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
