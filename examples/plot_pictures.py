"""
All pictures
============

Every view of the report is also a function of :mod:`hencler.plotting` that draws into the ``ax``
it is given and returns it: for papers, for notebooks, and to combine them. Here they are, on the
demo graph.
"""

# %%
# One model for all of them.

import matplotlib.pyplot as plt

from hencler import HeNCler, make_heterophilous_graph
from hencler import plotting as hp

graph = make_heterophilous_graph(120, n_attributes=12, random_state=0)
model = HeNCler(n_clusters=4, random_state=0).fit(graph)

# %%
# The graph and its links
# -----------------------

figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
hp.plot_sizes(model.labels_, ax=axes[0])
hp.plot_links(graph, model.labels_, ax=axes[1])
hp.plot_graph(graph, model.labels_, ax=axes[2])

# %%
# The embedding
# -------------
# As sources and as targets; by the components that vary most, or by neighbourhoods.

figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
hp.plot_embedding(model, ax=axes[0], side="e")
hp.plot_embedding(model, ax=axes[1], side="r")
hp.plot_embedding(model, ax=axes[2], side="e", layout="neighbours")

# %%
# The learned similarity
# ----------------------
# All of it against chance, one similarity by its leading components, and their singular values.

figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
hp.plot_similarity(model, ax=axes[0])
hp.plot_similarity(model, ax=axes[1], view="links")
hp.plot_singular_values(model, ax=axes[2])

# %%
# How sure, how stable, what about
# --------------------------------

figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
hp.plot_certainty(model, ax=axes[0])
hp.plot_stability(model.stability(n_runs=4), ax=axes[1])
hp.plot_attributes(graph, model.labels_, 0, ax=axes[2], count=4)

# %%
# Training, and the classes afterwards
# ------------------------------------
# Losses exist for the presets that train by gradient. Classes are compared when all is done.

trained = HeNCler(n_clusters=4, preset="paper", epochs=60, random_state=0).fit(graph)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
hp.plot_history(trained, ax=axes[0])
hp.plot_confusion(model.labels_, graph.y, ax=axes[1])
plt.show()
