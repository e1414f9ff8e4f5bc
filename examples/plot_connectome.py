"""
A brain: directions matter
==========================

The mushroom body of a fly larva: neurons of four kinds, and who synapses on whom. There are no
attributes. What a neuron is shows in where its links go *and* where they come from.
"""

# %%
# The data
# --------
# The graph is read from ``$HENCLER_DATA`` where it is there. Where it is not, a generated graph of
# about its size stands in: a flow from one block to the next, with nodes of very different degree.

import matplotlib.pyplot as plt
import numpy as np

from hencler import Graph, HeNCler, HenclerError, load_dataset
from hencler.metrics import adjusted_rand_index
from hencler.plotting import plot_links


def stand_in():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 50)
    flow = 0.05 + 0.3 * np.eye(4, k=1) + 0.3 * np.eye(4, k=-3)
    activity = rng.gamma(3, 1 / 3, (2, 200))
    chance = flow[y[:, None], y] * np.outer(*activity)
    return Graph(rng.random((200, 200)) < chance, y=y, directed=True, name="stand-in")


try:
    graph = load_dataset("drosophila-left")
except HenclerError:
    graph = stand_in()
print(graph)

# %%
# With and without directions
# ---------------------------
# The same model on the same links, once as they are and once symmetrised. Labels are looked at
# only now, to say how well the clusters agree with the kinds of neurons.

directed = HeNCler(n_clusters=4, random_state=0).fit(graph)
symmetrised = HeNCler(n_clusters=4, random_state=0).fit(graph.to_undirected())
print(f"directed:    {adjusted_rand_index(directed.labels_, graph.y):.2f}")
print(f"symmetrised: {adjusted_rand_index(symmetrised.labels_, graph.y):.2f}")

# %%
# Left the kinds of neurons as biologists tell them apart, right the clusters found.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
plot_links(graph, graph.y, ax=axes[0]).set_xlabel("to kind")
axes[0].set_ylabel("from kind")
plot_links(graph, directed.labels_, ax=axes[1])
