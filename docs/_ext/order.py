"""The order of the examples: from the first look to the special cases."""

from pathlib import Path

ORDER = (
    "heterophilous",
    "own_data",
    "webgraph",
    "connectome",
    "foodweb",
    "bipartite",
    "wksvd",
    "pictures",
)


class ExampleOrder:
    def __init__(self, source_folder):
        pass

    def __call__(self, file_name):
        name = Path(file_name).stem.removeprefix("plot_")
        return ORDER.index(name) if name in ORDER else len(ORDER)
