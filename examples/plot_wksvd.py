"""
WKSVD as a tool of its own
==========================

The weighted kernel SVD at the heart of HeNCler works on any matrix of similarities between two sets
of things, which need be neither symmetric nor square. With degree weights it finds biclusters:
groups of rows together with the columns they go with.
"""

# %%
# A table with hidden blocks
# --------------------------
# 90 rows and 60 columns, in three blocks, shuffled; rows and columns differ a lot in their totals.

import matplotlib.pyplot as plt
import numpy as np

from hencler import WKSVD
from hencler.metrics import adjusted_rand_index
from hencler.plotting import plot_embedding

rng = np.random.default_rng(0)
row_blocks, column_blocks = rng.integers(0, 3, 90), rng.integers(0, 3, 60)
level = np.where(row_blocks[:, None] == column_blocks, 6.0, 1.0)
table = rng.poisson(level * rng.gamma(2, 0.5, (90, 1)) * rng.gamma(2, 0.5, (1, 60)))

# %%
# Biclusters
# ----------
# ``kernel="precomputed"`` takes the table as the similarity itself. A little regularisation keeps
# rows that are almost empty from mattering too much.

model = WKSVD(2, n_clusters=3, kernel="precomputed", regularization=0.3, random_state=0).fit(table)
print(f"rows:    {adjusted_rand_index(model.row_labels_, row_blocks):.2f}")
print(f"columns: {adjusted_rand_index(model.column_labels_, column_blocks):.2f}")

rows, columns = np.argsort(model.row_labels_), np.argsort(model.column_labels_)
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
axes[0].imshow(np.log1p(table), cmap="cividis", aspect="auto")
axes[0].set_title("as given")
axes[1].imshow(np.log1p(table[np.ix_(rows, columns)]), cmap="cividis", aspect="auto")
axes[1].set_title("ordered by bicluster")
plot_embedding(model, ax=axes[2])

# %%
# Two solvers, one answer
# -----------------------
# A linear kernel is solved in the primal, from the feature maps alone: S is never formed, so that
# millions of rows are fine. The same S given to the dual has the same singular values.

phi, psi = rng.random((500, 8)), rng.random((300, 8))
primal = WKSVD(3).fit(phi, Z=psi)
dual = WKSVD(3, kernel="precomputed").fit(phi @ psi.T)
print(primal.singular_values_)
print(np.allclose(primal.singular_values_, dual.singular_values_))

# %%
# New rows are embedded without fitting again.

print(primal.transform(rng.random((2, 8))).shape)
