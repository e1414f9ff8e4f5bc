"""Matrix Market files: valid ones as SciPy reads them, damaged ones with a typed error."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from hencler._errors import FileFormatError
from hencler.io import read_graph
from hencler.io._mtx import read_matrix_market


@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("dense", [True, False])
def test_as_scipy_reads_it(tmp_path, field, symmetry, dense, global_random_seed):
    if dense and field == "pattern":
        pytest.skip("a dense matrix has values")
    rng = np.random.default_rng(global_random_seed)
    matrix = np.round(5 * rng.random((5, 5)) * (rng.random((5, 5)) < 0.5))
    if symmetry != "general":
        matrix = matrix + (1 if symmetry == "symmetric" else -1) * matrix.T
    matrix = matrix.astype(int) if field == "integer" else matrix
    file = tmp_path / "m.mtx"
    given = matrix if dense else sp.coo_array(matrix)
    scipy.io.mmwrite(file, given, comment="x\ny", field=field, symmetry=symmetry)
    expected = scipy.io.mmread(file)
    expected = expected if dense else expected.toarray()
    np.testing.assert_array_equal(read_matrix_market(file).toarray(), expected)


COORDINATE = "%%MatrixMarket matrix coordinate real general\n"
ARRAY = "%%MatrixMarket matrix array real general\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (ARRAY + "2 2\n0\n1\n1\ufffd", "cannot|could not"),  # these two end SciPy's process
        (ARRAY + "0 2\n0\n1\n1\n", "announced"),
        (ARRAY + "2 2\n0\n1\n1\n", "3 entries, but 4"),
        (ARRAY + "2 2\n" + "1\n" * 5, "5 entries, but 4"),
        (ARRAY + "900000 900000\n1\n", "announced"),
        (ARRAY.replace("real", "pattern") + "2 2\n", "needs values"),
        (ARRAY.replace("general", "symmetric") + "2 3\n", "square"),
        (COORDINATE + "2 2 1\n3 1 1\n", r"\(3, 1\), outside"),
        (COORDINATE + "2 2 1\n0 1 1\n", r"\(0, 1\), outside"),
        (COORDINATE + "2 2 1\n", "0 entries, but 1"),
        (COORDINATE + "2 2 1\n1 1 x\n", "could not convert"),
        (COORDINATE + "2 2 1\n1 1\n", "columns"),
        (COORDINATE + "2 2\n", "size of the matrix"),
        (COORDINATE + "2 2 -1\n", "size of the matrix"),
        (COORDINATE + "2 2 " + "9" * 5000, "size of the matrix"),
        (COORDINATE, "size of the matrix"),
        (COORDINATE.replace("real", "complex"), "'complex' matrices"),
        (COORDINATE.replace("general", "hermitian"), "'hermitian' matrices"),
        (COORDINATE.replace("matrix", "vector", 1), "first line"),
        (COORDINATE + "99999999999 99999999999 1\n1 1 1\n", "nodes for 1 edges"),
        ("x" * 10_000, "first line"),
    ],
)
def test_damaged_files(tmp_path, content, problem):
    file = tmp_path / "g.mtx"
    file.write_text(content)
    with pytest.raises(FileFormatError, match=problem):
        read_graph(file)
