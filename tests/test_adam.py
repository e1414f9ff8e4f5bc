"""Adam beside torch's, and the import it is there to avoid."""

import subprocess
import sys

import torch

from hencler._adam import Adam


def parameters():
    generator = torch.Generator().manual_seed(0)
    # One of them stored by columns, as the first layers are.
    shapes = [(4, 3), (5,), (6, 2)]
    made = [torch.randn(s, generator=generator) for s in shapes]
    made[2] = made[2].T.contiguous().T
    return [torch.nn.Parameter(p) for p in made]


def descend(optimiser, weights, steps):
    for i in range(steps):
        optimiser.zero_grad()
        sum((p - i).square().sum() for p in weights[: 2 + i % 2]).backward()
        optimiser.step()


def test_steps_are_those_of_torch():
    ours, theirs = parameters(), parameters()
    descend(Adam(ours, 0.03), ours, 7)
    descend(torch.optim.Adam(theirs, lr=0.03), theirs, 7)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b)


def test_a_loaded_state_goes_on_as_if_nothing_happened():
    ours, theirs = parameters(), parameters()
    first, whole = Adam(ours, 0.03), Adam(theirs, 0.03)
    descend(first, ours, 4)
    second = Adam(ours, 0.03)
    second.load_state({j: {k: v.clone() for k, v in s.items()} for j, s in first.state.items()})
    descend(second, ours, 3)
    descend(whole, theirs, 4)
    descend(whole, theirs, 3)
    for a, b in zip(ours, theirs):
        assert torch.equal(a, b)


def test_training_imports_no_compiler():
    code = (
        "import sys; from hencler import HeNCler, make_heterophilous_graph as make;"
        "g = make(30, 2, n_attributes=4, random_state=0);"
        "HeNCler(2, preset='released', epochs=2, device='cpu').fit(g);"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
