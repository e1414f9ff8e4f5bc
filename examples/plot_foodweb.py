"""
A food web: who eats whom
=========================

Species of a savanna, and who is eaten by whom. There are no attributes, and linked species are
never of one kind: grass does not eat grass. What a species *is* shows in two things, whom it
feeds and what it feeds on. Two grazers need not be linked to each other to belong together.
"""

# %%
# The web
# -------
# Links go from the food to the eater, the way the energy flows. The Serengeti web is read from
# ``$HENCLER_DATA`` where it is there; where it is not, a generated web with plants, grazers and
# hunters stands in. Your own comes from a file: ``read_graph("web.csv")`` with one line per link.

import matplotlib.pyplot as plt
import numpy as np

from hencler import Graph, HeNCler, HenclerError, load_dataset
from hencler.plotting import plot_embedding, plot_graph, plot_links, plot_stability


def stand_in():
    rng = np.random.default_rng(0)
    kinds = ["grass"] * 40 + ["tree"] * 40 + ["grazer"] * 14 + ["browser"] * 10 + ["hunter"] * 8
    eaten_by = {
        ("grass", "grazer"): 0.5,
        ("tree", "browser"): 0.4,
        ("grass", "browser"): 0.05,
        ("grazer", "hunter"): 0.6,
        ("browser", "hunter"): 0.4,
    }
    chance = np.array([[eaten_by.get((a, b), 0.0) for b in kinds] for a in kinds])
    names = [f"{kind} {i}" for i, kind in enumerate(kinds)]
    return Graph(rng.random(chance.shape) < chance, ids=names, directed=True, name="stand-in")


try:
    web = load_dataset("serengeti")
except HenclerError:
    web = stand_in()
print(web)

# %%
# Five kinds of species
# ---------------------
# Nothing is said about levels, plants or animals. Who has the same eaters and the same food ends up
# in one cluster. Species nearest to the centre of their cluster are shown first.

model = HeNCler(n_clusters=5, random_state=0).fit(web)
z = np.hstack([model.e_, model.r_])
for cluster in range(5):
    members = np.flatnonzero(model.labels_ == cluster)
    distance = np.linalg.norm(z[members] - z[members].mean(axis=0), axis=1)
    typical = web.ids[members[np.argsort(distance)[:4]]]
    out, into = (web.adjacency.sum(axis=axis)[members].mean() for axis in (1, 0))
    print(f"{cluster}: {len(members):3} species, feed {out:4.1f}, eat {into:4.1f}: ", end="")
    print(", ".join(map(str, typical)))

# %%
# Plants feed many and eat none; hunters eat many and feed none; grazers do both. The matrix of
# links against chance has an empty diagonal, and reads as a flow: from the cluster of the row to
# the cluster of the column. Grey cells cannot have links, because one of the two sides has none
# at all.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
plot_links(web, model.labels_, ax=axes[0])
plot_graph(web, model.labels_, ax=axes[1])

# %%
# Two maps of the same species
# ----------------------------
# As a source of energy (e) plants are told apart by who eats them; as a target (r) they are all the
# same, since they eat nothing, and it is the animals that differ. Neither map has the whole story,
# and a symmetric similarity would have to mix them.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
plot_embedding(model, ax=axes[0], side="e", layout="neighbours")
plot_embedding(model, ax=axes[1], side="r", layout="neighbours")

# %%
# How much of it is luck
# ----------------------
# The clusters are found again with other seeds. This needs no labels, and is the first thing to
# look at before believing a cluster.

stable = model.stability()
print(f"agreement over seeds: {stable.agreement:.2f}")
plot_stability(stable)

# %%
# Species that change their cluster from seed to seed would be worth a look of their own.

restless = np.flatnonzero(stable.nodes < 0.6)
print([str(web.ids[i]) for i in restless] or "none here")

# %%
# On the command line
# -------------------
# A table with the columns ``source,target`` (or ``predator,prey``; the first column is the source)
# is all that is needed::
#
#     hencler fit web.csv --clusters 5 --out run
#
# ``run/report.html`` then has these pictures and the table of all species.
plt.show()
