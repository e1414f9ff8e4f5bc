"""
A web graph: pages, words and links
===================================

Pages of a university's web site, the words on them, and which page links to which. A student's
page links to a course, a course to its teacher, hardly ever a page to one of its own kind: a
graph on which methods that average over neighbours do worse than those that forget the links.
"""

# %%
# The data
# --------
# The pages of Texas are read from ``$HENCLER_DATA`` where they are there. Where they are not, a
# generated site of the same size stands in: four kinds of pages with words of their own, and
# links that say little about them.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from hencler import Graph, HeNCler, HenclerError, load_dataset
from hencler.metrics import edge_homophily, evaluate
from hencler.plotting import (
    plot_attributes,
    plot_certainty,
    plot_confusion,
    plot_links,
    plot_sizes,
)


def stand_in():
    rng = np.random.default_rng(0)
    y = rng.choice(4, 183, p=[0.5, 0.2, 0.2, 0.1])
    rates = rng.gamma(0.3, 0.1, (4, 800))
    words = sp.csr_array((rng.random((183, 800)) < rates[y]).astype(float))
    links = rng.random((183, 183)) < 0.004 + 0.012 * (y[:, None] != y)
    return Graph(links, words, y=y, directed=True, name="stand-in")


try:
    site = load_dataset("texas")
except HenclerError:
    site = stand_in()
print(site)

# %%
# What to look at is decided from the data
# ----------------------------------------
# Words are recognised as words (many columns, non-negative, mostly zero) and weighted as such.
# Whether neighbours help is a question the graph answers itself: a node's words are compared with
# its neighbours' words, and both with shuffled data. Here they say: look at the page itself.

k = len(np.unique(site.y))
model = HeNCler(n_clusters=k, random_state=0).fit(site)
print("views:", model.views_)
for name, value in model.evidence_.items():
    print(f"{name:12} {value:.2f}")

# %%
# The clusters
# ------------
# Sizes, and how sure the nodes are: the margin of each node between its own cluster and the next.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_sizes(model.labels_, ax=axes[0])
plot_certainty(model, ax=axes[1])

# %%
# What a cluster is about: the words it has more often, and less often, than all other pages.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
order = np.argsort(np.bincount(model.labels_))
plot_attributes(site, model.labels_, int(order[-1]), ax=axes[0])
plot_attributes(site, model.labels_, int(order[0]), ax=axes[1])

# %%
# Only now, the classes
# ---------------------
# The site comes with the kind of every page. It is looked at once, when the clusters are final:
# nothing above could see it. Few links join two pages of one kind.

print(f"{edge_homophily(site):.0%} of the links join pages of one kind")
for name, value in evaluate(model.labels_, site.y).items():
    print(f"{name:12} {value:.3g}")

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_confusion(model.labels_, site.y, ax=axes[0])
plot_links(site, model.labels_, ax=axes[1])

# %%
# On the command line
# -------------------
# Links in one table, words in another, both with the addresses of the pages as ids::
#
#     hencler fit links.csv --features words.csv --clusters 5 --out run
#
# A word table of some size is better kept sparse: a SciPy matrix saved as ``.npz`` is taken as
# well.
plt.show()
