r"""Feature maps trained on what is hidden, solved exactly.

Half of every node's attributes and half of the links are hidden at random. Linear maps from what
is left, the views

    [own attributes | out-neighbours' mean | in-neighbours' mean | out-links | in-links],

to what was hidden are the minimiser of a squared loss with weight decay, averaged over several
draws: the node and edge decoders of HeNCler with the best encoder there is for them. How much the
neighbours and the links count, and in which direction, is learnt; homophily is not assumed.

    phi = relu(b + [predicted attributes | omega * predicted out-links])
    psi = relu(b + [predicted attributes | omega * predicted in-links])

The shift b makes the maps of the training nodes non-negative, so that they stay exactly linear.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from ._graph import MANY_NODES
from ._links import LinkColumns, Links
from ._prepare import Measurements, Preparation, Words
from ._progress import steps
from ._state import checked
from ._views import FeatureMaps, walk_matrix

__all__ = ["LearnedMaps"]

DRAWS, DRAWS_LARGE = 24, 8
"""Draws of what is hidden: more of them where a node more or less matters."""

HIDDEN_SHARE = 0.5
WEIGHT_DECAY = 0.5
"""In units of the mean diagonal of the views' Gram matrix."""

LINK_WEIGHT = 0.1
"""omega: predicted links count less than predicted attributes."""

COLUMNS_PER_CLUSTER, MAX_COLUMNS = 12, 100
"""Coordinates of the words and of the links: 12 k, at most 100 and at most n / 4."""


class _Draw(NamedTuple):
    """One draw: what is shown as views (n, q), and what is hidden."""

    views: NDArray[Any]
    attributes: NDArray[Any] | None
    out_links: NDArray[Any]
    in_links: NDArray[Any]


class LearnedMaps:
    """phi and psi of the nodes of a graph with attributes.

    Everything is linear in nodes and links; the largest matrix that is factorised has the views'
    number of columns, a few hundred.
    """

    preparation: Preparation
    links: LinkColumns

    def fit(
        self, preparation: Preparation, x: Any, adjacency: Any, directed: bool, k: int, seed: int
    ) -> Self:
        """`adjacency`: damped links without loops."""
        rng = np.random.default_rng(seed)
        n = adjacency.shape[0]
        self.preparation, self.directed = preparation, directed
        columns = max(2, min(COLUMNS_PER_CLUSTER * k, MAX_COLUMNS, n // 4))
        columns = min(columns, n)
        content = preparation.content(x)
        self._fit_coordinates(content, columns, seed)
        self.links = LinkColumns(columns).fit(adjacency)
        both_ways = Links(adjacency, adjacency.T.tocsr())
        self.link_scale = 1.0
        out, into = self.links.transform(*both_ways)
        size = np.sqrt(((out**2).sum(axis=1).mean() + (into**2).sum(axis=1).mean()) / 2)
        self.link_scale = 1 / max(float(size), np.finfo(float).tiny) if size > 0 else 0.0

        coordinates = self._coordinates(content, 1.0)
        views = self._views(coordinates, both_ways, *self._link_columns(both_ways, both_ways))
        self._solve(views, content, coordinates, both_ways, rng)
        self.shift_phi, self.shift_psi = (
            1e-3 - (views @ weights).min(axis=0) for weights in (self.to_phi, self.to_psi)
        )
        return self

    # --- inputs --------------------------------------------------------------------------------

    def _fit_coordinates(self, content: Any, columns: int, seed: int) -> None:
        if isinstance(self.preparation, Measurements):
            self.basis = np.zeros((0, 0))
            self.scale, self.centre = 1.0, np.zeros(content.shape[1])
            return
        columns = min(columns, min(content.shape) - 1)
        self.basis = randomized_svd(content, columns, random_state=seed)[2].T
        z = content @ self.basis
        size = np.sqrt(((z - z.mean(axis=0)) ** 2).sum(axis=1).mean())
        self.scale = 1 / max(float(size), np.finfo(float).tiny)
        self.centre = np.zeros(columns + 1)
        self.centre = self._coordinates(content, 1.0).mean(axis=0)

    def _coordinates(self, content: Any, share: float) -> NDArray[np.float64]:
        """Attributes as a few columns of mean 0 and about unit length, shape (n, c).

        `share`: of the attributes that `content` shows, so that counts can be made up for it.
        """
        if not isinstance(self.preparation, Words):
            return np.asarray(content)
        magnitude = self.preparation.magnitude(np.diff(content.indptr) / share)
        columns = np.hstack([content @ self.basis * self.scale, magnitude[:, None]])
        return columns - self.centre

    def _views(
        self, coordinates: NDArray[Any], neighbours: Links, out: NDArray[Any], into: NDArray[Any]
    ) -> NDArray[Any]:
        """Own, neighbours' means, links; shape (n, q). Undirected graphs need one side only."""
        if not self.directed:
            return np.hstack([coordinates, walk_matrix(neighbours.out) @ coordinates, out])
        means = (walk_matrix(side) @ coordinates for side in neighbours)
        return np.hstack([coordinates, *means, out, into])

    def _link_columns(self, links: Links, whole: Links) -> tuple[NDArray[Any], NDArray[Any]]:
        # Degrees are the whole graph's: half the links must not look like half the degree.
        degrees = (np.asarray(side.sum(axis=1)).ravel() for side in whole)
        out, into = self.links.columns(*links, *degrees)
        return out * self.link_scale, into * self.link_scale

    # --- training --------------------------------------------------------------------------------

    def _draw(
        self, content: Any, coordinates: NDArray[Any], whole: Links, rng: np.random.Generator
    ) -> _Draw:
        shown, hidden = _split_links(whole.out, rng)
        attributes = None
        kept = coordinates
        if sp.issparse(content):
            mask = rng.random(content.nnz) < 1 - HIDDEN_SHARE
            kept = self._coordinates(_thinned(content, mask, 1 - HIDDEN_SHARE), 1 - HIDDEN_SHARE)
            attributes = self._coordinates(_thinned(content, ~mask, HIDDEN_SHARE), HIDDEN_SHARE)
        else:
            groups = self.preparation.groups[: coordinates.shape[1]]
            mask = rng.random((len(coordinates), int(groups.max()) + 1)) < 1 - HIDDEN_SHARE
            kept = np.where(mask[:, groups], coordinates, 0.0)
        views = self._views(kept, shown, *self._link_columns(shown, whole))
        return _Draw(views, attributes, *self._link_columns(hidden, whole))

    def _solve(
        self,
        views: NDArray[Any],
        content: Any,
        coordinates: NDArray[Any],
        whole: Links,
        rng: np.random.Generator,
    ) -> None:
        q = views.shape[1]
        width = coordinates.shape[1]
        links = 2 * len(self.links.left.T)
        gram, to_links = np.zeros((q, q)), np.zeros((q, links))
        to_attributes = np.zeros((q, width))
        draws = range(DRAWS if len(views) <= MANY_NODES else DRAWS_LARGE)
        for _ in steps("learning the maps", draws):
            draw = self._draw(content, coordinates, whole, rng)
            gram += draw.views.T @ draw.views
            to_links += draw.views.T @ np.hstack([draw.out_links, draw.in_links])
            if draw.attributes is not None:
                to_attributes += draw.views.T @ draw.attributes
        ridge = _with_decay(gram)
        if isinstance(self.preparation, Words):
            attributes = np.linalg.solve(ridge, to_attributes)
        else:
            groups = self.preparation.groups[:width]
            attributes = _each_from_the_others(_with_decay(views.T @ views), groups)
        predicted = LINK_WEIGHT * np.linalg.solve(ridge, to_links)
        self.to_phi = np.hstack([attributes, predicted[:, : links // 2]])
        self.to_psi = np.hstack([attributes, predicted[:, links // 2 :]])

    # --- use -------------------------------------------------------------------------------------

    def maps(self, x: Any, adjacency: Any, known: Links) -> FeatureMaps:
        """phi and psi of a graph's nodes, shape (n', d_f) each.

        `adjacency`: damped links among them; `known`: their damped links with the nodes fitted on.
        """
        coordinates = self._coordinates(self.preparation.content(x), 1.0)
        neighbours = Links(adjacency, adjacency.T.tocsr())
        views = self._views(coordinates, neighbours, *self._link_columns(known, known))
        return FeatureMaps(
            np.maximum(views @ self.to_phi + self.shift_phi, 0.0),
            np.maximum(views @ self.to_psi + self.shift_psi, 0.0),
        )

    def state(self) -> dict[str, NDArray[Any]]:
        names = ("basis", "centre", "to_phi", "to_psi", "shift_phi", "shift_psi")
        arrays = {name: getattr(self, name) for name in names}
        arrays["scalars"] = np.array([self.scale, self.link_scale, float(self.directed)])
        return arrays | {f"links.{k}": v for k, v in self.links.state().items()}

    @classmethod
    def from_state(
        cls, preparation: Preparation, state: dict[str, NDArray[Any]], n: int | None = None
    ) -> Self:
        """`n`: nodes fitted on, where that is known."""
        self = cls()
        self.preparation = preparation
        links = {k[6:]: v for k, v in state.items() if k.startswith("links.")}
        self.links = LinkColumns.from_state(links, n)
        scalars = checked(state, {"scalars": "3"}, {"3": 3})["scalars"]
        self.scale, self.link_scale = float(scalars[0]), float(scalars[1])
        self.directed = bool(scalars[2])
        c, sides = self.links.n_columns, 1 + self.directed
        words = isinstance(preparation, Words)
        w = state["basis"].shape[-1] + 1 if words else len(preparation.groups) // 2
        sizes = {"0": 0, "d": len(preparation.groups) - 2, "b": w - 1, "w": w, "f": w + c}
        sizes["q"] = w * (1 + sides) + c * sides
        shapes = {"basis": "db" if words else "00", "centre": "w", "to_phi": "qf", "to_psi": "qf"}
        shapes |= {"shift_phi": "f", "shift_psi": "f"}
        for name, value in checked(state, shapes, sizes).items():
            setattr(self, name, value)
        return self


def _thinned(content: Any, mask: NDArray[np.bool_], share: float) -> Any:
    """The entries under the mask, scaled up so that sums stay what they were on average."""
    out = content.copy()
    out.data = np.where(mask, out.data / share, 0.0)
    out.eliminate_zeros()
    return out


def _split_links(adjacency: Any, rng: np.random.Generator) -> tuple[Links, Links]:
    """Shown and hidden links, scaled up; both directions of a pair go the same way."""
    n = adjacency.shape[0]
    coo = adjacency.tocoo()
    low, high = np.minimum(coo.row, coo.col), np.maximum(coo.row, coo.col)
    _, pair = np.unique(low.astype(np.int64) * n + high, return_inverse=True)
    shown = rng.random(int(pair.max(initial=-1)) + 1)[pair] < 1 - HIDDEN_SHARE
    parts = []
    for chosen, share in ((shown, 1 - HIDDEN_SHARE), (~shown, HIDDEN_SHARE)):
        at = (coo.row[chosen], coo.col[chosen])
        part = sp.csr_array((coo.data[chosen] / share, at), shape=(n, n))
        parts.append(Links(part, part.T.tocsr()))
    return parts[0], parts[1]


def _with_decay(gram: NDArray[Any]) -> NDArray[Any]:
    q = len(gram)
    decay = WEIGHT_DECAY * np.trace(gram) / q
    return gram + max(decay, np.finfo(float).tiny) * np.eye(q)


def _each_from_the_others(ridge: NDArray[Any], groups: NDArray[Any]) -> NDArray[Any]:
    r"""Ridge weights that predict each attribute from everything but itself, all by one inverse.

    With :math:`P = (G'G + \lambda I)^{-1}` and g the columns of an attribute,
    :math:`W_{:,g} = -P_{:,g} P_{gg}^{-1}` outside of g, and 0 within.
    """
    inverse = np.linalg.inv(ridge)
    weights = np.zeros((len(ridge), len(groups)))
    for group in np.unique(groups):
        at = np.flatnonzero(groups == group)
        weights[:, at] = -inverse[:, at] @ np.linalg.inv(inverse[np.ix_(at, at)])
        weights[at[:, None], at] = 0.0
    return weights
