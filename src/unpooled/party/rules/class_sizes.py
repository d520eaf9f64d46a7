"""How many rows of each class stand behind what a step releases by class."""

from collections import Counter

from unpooled.party.views.view import View
from unpooled.protocol.step import Step


def by_class(step: Step) -> bool:
    """Whether a step may release what belongs to one class alone.

    Either its arrays have the axis c, or it is told of classes, by which it may weigh.
    """
    axes = [one.axes for one in (*step.leaves.values(), *step.takes.values())]
    return "y" in step.reads and any("c" in letters.split() for letters in axes)


def class_sizes(view: View, label: str) -> list[int]:
    """Return the number of rows of each class that the view has, in no order."""
    sizes = Counter[object]()
    for block in view.blocks([label]):
        # Missing labels (None, NaN) are no class; a step refuses them itself.
        labels = block.extra[label].tolist()
        sizes.update(x for x in labels if x is not None and x == x)
    return list(sizes.values())
