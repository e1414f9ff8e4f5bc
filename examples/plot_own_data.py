"""
Your own data, from two CSV files
=================================

An edge list and, if there is one, a table of node attributes: that is all that is needed.
"""

# %%
# Two files
# ---------
# Twelve people of a small company. A line of ``edges.csv`` says who writes to whom how often;
# a line of ``people.csv`` says something about a person. Here they are written first; yours exist.

import tempfile
from pathlib import Path

from hencler import HeNCler, read_graph
from hencler.io import write_labels
from hencler.plotting import plot_links

folder = Path(tempfile.mkdtemp())
(folder / "people.csv").write_text("""\
id,years,salary
ann,12,90
bob,11,85
cem,14,95
dia,13,88
eva,2,40
finn,3,42
gus,1,38
hana,2,41
ida,5,60
jan,6,62
kim,5,58
lea,7,61
""")
(folder / "edges.csv").write_text("""\
source,target,weight
ann,eva,4
ann,finn,3
bob,finn,5
bob,gus,2
cem,gus,4
cem,hana,3
dia,hana,4
dia,eva,2
eva,ida,6
eva,jan,5
finn,jan,4
finn,kim,3
gus,kim,5
gus,lea,4
hana,lea,5
hana,ida,3
ida,ann,1
jan,bob,2
kim,cem,1
lea,dia,2
""")

# %%
# Read, cluster, write
# --------------------
# ``read_graph`` takes CSV, TSV, Parquet, GraphML, GML, Matrix Market and NumPy files. A mistake
# in a file is an error that names the line. Edges are directed unless each has its twin.

graph = read_graph(folder / "edges.csv", features=folder / "people.csv")
print(graph)

model = HeNCler(n_clusters=3, random_state=0).fit(graph)
for name, cluster in zip(graph.ids, model.labels_):
    print(f"{name:5} {cluster}")

write_labels(folder / "labels.csv", graph.ids, model.labels_)

# %%
# On the command line, ``hencler fit edges.csv --features people.csv --clusters 3`` does the same
# and writes a report beside it.
#
# Who links to whom
# -----------------
# No message stays within its cluster: managers write to trainees, trainees to staff, and staff
# to managers. Nothing in the settings said so.

plot_links(graph, model.labels_)
