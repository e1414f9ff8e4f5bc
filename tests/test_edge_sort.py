import numpy as np
import pytest
import scipy.sparse as sp

from hencler._edge_sort import EdgeSorter, same_in_both_directions
from hencler._errors import GraphError

N, EDGES = 60, 3000


def sorted_matrix(folder, n, source, target, weight=None, *, step=701, **options):
    out = folder / "out"
    out.mkdir()
    sorter = EdgeSorter(folder, n, **options)
    for start in range(0, len(source), step):
        rows = slice(start, start + step)
        sorter.add(source[rows], target[rows], None if weight is None else weight[rows])
    written = sorter.write(out)
    assert [p.name for p in folder.iterdir()] == ["out"], "temporary files are left"
    indptr, indices = np.load(out / "indptr.npy"), np.load(out / "indices.npy")
    assert (out / "weights.npy").exists() == written.weighted
    data = np.load(out / "weights.npy") if written.weighted else np.ones(len(indices))
    matrix = sp.csr_array((data, indices, indptr), shape=(n, n))
    assert matrix.has_canonical_format
    assert written.entries == matrix.nnz
    assert written.self_loops == np.count_nonzero(matrix.diagonal())
    return matrix


@pytest.mark.parametrize("memory", [1, 60_000, 1 << 30], ids=["many", "some", "one bucket"])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_as_scipy_sums_duplicates(
    memory, undirected, weighted, tmp_path, monkeypatch, global_random_seed
):
    monkeypatch.setattr("hencler._edge_sort._CHUNK", 999)
    rng = np.random.default_rng(global_random_seed)
    u, v = rng.integers(N, size=(2, EDGES))
    u[: EDGES // 2] = 7  # a hub
    w = rng.integers(0, 5, size=EDGES).astype(float) if weighted else None
    found = sorted_matrix(tmp_path, N, u, v, w, undirected=undirected, memory=memory)
    expected = sp.coo_array((np.ones(EDGES) if w is None else w, (u, v)), shape=(N, N)).tocsr()
    expected.eliminate_zeros()
    expected = expected.maximum(expected.T) if undirected else expected
    assert found.nnz == expected.nnz
    assert np.allclose(found.toarray(), expected.toarray())
    dense = found.toarray()
    symmetric = same_in_both_directions(found.indptr, found.indices, found.data)
    assert symmetric == np.array_equal(dense, dense.T)


def test_once(tmp_path):
    found = sorted_matrix(tmp_path, 3, np.array([0, 0, 1]), np.array([1, 1, 2]), once=True)
    assert found.toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_weights_may_begin_late(tmp_path):
    sorter = EdgeSorter(tmp_path, 3)
    sorter.add(np.array([0]), np.array([1]))
    sorter.add(np.array([1]), np.array([2]), np.array([3.0]))
    sorter.add(np.array([2]), np.array([0]))
    (tmp_path / "out").mkdir()
    sorter.write(tmp_path / "out")
    assert np.load(tmp_path / "out" / "weights.npy").tolist() == [1, 3, 1]


def test_symmetry_notices_one_weight_and_one_direction():
    a = sp.random_array((50, 50), density=0.2, rng=np.random.default_rng(0), format="csr")
    a = (a + a.T).tocsr()
    assert same_in_both_directions(a.indptr, a.indices, a.data)
    assert same_in_both_directions(a.indptr, a.indices, None)
    other = a.data.copy()
    other[3] *= 1.5
    if a.indices[3] != np.searchsorted(a.indptr, 3, side="right") - 1:
        assert not same_in_both_directions(a.indptr, a.indices, other)
    one = sp.csr_array(np.array([[0, 1], [0, 0]]))
    assert not same_in_both_directions(one.indptr, one.indices, None)


def test_too_many_nodes_for_64_bits(tmp_path):
    with pytest.raises(GraphError, match="2\\^31"):
        EdgeSorter(tmp_path, (1 << 31) + 1)
