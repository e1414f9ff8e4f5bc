"""
Users and items
===============

A table of who uses what is a bipartite graph: links go from users to items and nowhere else, so
that no two linked nodes can be of one kind. ``Graph.from_biadjacency`` makes the graph from a
matrix and ``read_graph("purchases.csv", bipartite=True)`` from a table. Users are sources and items
are targets.
"""

# %%
# A table of purchases
# --------------------
# 120 users and 80 items in three tastes; one purchase in four is made at random.

import numpy as np
import scipy.sparse as sp

from hencler import Graph, HeNCler
from hencler.metrics import adjusted_rand_index
from hencler.plotting import plot_links

rng = np.random.default_rng(0)
taste, kind = rng.integers(0, 3, 120), rng.integers(0, 3, 80)
users = rng.integers(0, 120, 1500)
wanted = [np.flatnonzero(kind == c) for c in range(3)]
items = np.array([rng.choice(wanted[taste[u]]) for u in users])
items = np.where(rng.random(1500) < 0.25, rng.integers(0, 80, 1500), items)
purchases = sp.coo_array((np.ones(1500), (users, items)), shape=(120, 80)).tocsr()

graph = Graph.from_biadjacency(
    purchases,
    row_ids=[f"user {i}" for i in range(120)],
    col_ids=[f"item {j}" for j in range(80)],
)
print(graph)

# %%
# Six clusters: three of users, three of items
# --------------------------------------------
# Users have out-links only and items in-links only, so that the two sides never mix.

model = HeNCler(n_clusters=6, random_state=0).fit(graph)
sides = np.repeat(["user", "item"], [120, 80])
for cluster in range(6):
    members = sides[model.labels_ == cluster].tolist()
    print(cluster, {side: members.count(side) for side in ("user", "item")})

print(f"users: {adjusted_rand_index(model.labels_[:120], taste):.2f}")
print(f"items: {adjusted_rand_index(model.labels_[120:], kind):.2f}")

# %%
# Which users buy which items:

plot_links(graph, model.labels_)

# %%
# :class:`~hencler.WKSVD` is the other way to do it: it gives users and items that go together the
# same number. See :ref:`sphx_glr_gallery_plot_wksvd.py`.
