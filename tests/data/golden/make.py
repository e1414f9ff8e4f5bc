"""Write the golden folders of this release: ``python tests/data/golden/make.py``.

Run once per release, and committed: later versions must be able to read them. What is there
already is never written again.
"""

from pathlib import Path

import numpy as np

from hencler import Graph, HeNCler, __version__, make_heterophilous_graph
from hencler._run import write_run

FOLDER = Path(__file__).parent / __version__


def graphs():
    """Small graphs with and without attributes, the latter with names as ids."""
    full = make_heterophilous_graph(36, 3, n_attributes=5, random_state=0)
    return {
        "attributes": full,
        "links": Graph(full.adjacency, ids=[f"node {i}" for i in range(36)], y=full.y),
    }


def main():
    for kind, graph in graphs().items():
        for preset in ("default", "paper", "released") if kind == "attributes" else ("default",):
            folder = FOLDER / f"{preset}-{kind}"
            if folder.exists():
                continue
            model = HeNCler(
                3, preset=preset, epochs=2, n_init=2, n_components=3, device="cpu", random_state=0
            )
            model.fit(graph)
            write_run(folder, graph, model, seconds=0.0, source=kind, truth=graph.y)
            np.savetxt(folder / "transform.csv", model.transform(graph), delimiter=",")


if __name__ == "__main__":
    main()
