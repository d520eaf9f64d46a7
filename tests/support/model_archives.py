"""Rows to fit models on, and archives that are packed as model files are."""

import json
import zipfile

import numpy as np


def rows():
    X = np.random.default_rng(3).normal(size=(60, 4)) * [1e-8, 1.0, 5.0, 1e8]
    X[::5, 1] = np.nan
    X[:, 2] = 7.0
    return X


def content_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path, members, how=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def rewritten(saved, path, how=zipfile.ZIP_STORED, **changes):
    """Write the saved file again with some keys of its JSON changed."""
    members = content_of(saved)
    content = json.loads(members["model.json"]) | changes
    return packed(path, members | {"model.json": json.dumps(content)}, how)
