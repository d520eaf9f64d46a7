"""The text of a short study file, edited and read."""

import unpooled as up

STUDY = """
[study]
name = "heart"

[parties.a]
source = "a.csv"

[[steps]]
model = "PCA"
"""


def reader(folder):
    """Return what reads a study file of a text, beside which other files may lie."""

    def read(text=STUDY, **files):
        for name, content in files.items():
            (folder / f"{name}.toml").write_text(content)
        (folder / "heart.toml").write_text(text)
        return up.Study.from_file(folder / "heart.toml")

    return read


def edited(old, new):
    assert old in STUDY
    return STUDY.replace(old, new)
