"""The preset ``released`` beside a plain dense version of the published model, step by step."""

import numpy as np
import pytest
import torch
from torch import nn

from hencler import make_heterophilous_graph
from hencler._network import NetworkModel
from hencler._sampling import PairSampler
from hencler._training import NodeInputs, TrainingSettings, _generator, train

EPOCHS = 5
"""Adam divides small gradients by their size, so that rounding grows from step to step."""


def dense_copy(net):
    """The same weights in plain torch modules: phi, psi, decoder and the Stiefel matrix."""
    d, s = net.config.n_inputs, net.config.n_components

    def layers(first, second, tail):
        copy = nn.Sequential(
            nn.Linear(first.in_features, first.out_features),
            nn.LeakyReLU(),
            nn.Linear(second.in_features, second.out_features),
            *tail,
        )
        for mine, theirs in ((copy[0], first), (copy[2], second)):
            mine.load_state_dict(theirs.state_dict())
        return copy

    phi = layers(net.phi.first, net.phi.second, [nn.LeakyReLU()])
    psi = layers(net.psi.first, net.psi.second, [nn.LeakyReLU()])
    decoder = layers(net.decoder_hidden, net.decoder_out, [])
    assert decoder[0].out_features == (256 + d) // 2
    stiefel = nn.Parameter(net.stiefel.detach().clone())
    assert stiefel.shape == (2 * s, 128)
    return phi, psi, decoder, stiefel


def forward(x, phi, psi, decoder, stiefel, pairs, is_edge):
    """Embedding [e | r], and the loss without and with its edge term."""
    n, s = len(x), len(stiefel) // 2
    f, p = phi(x), psi(x)
    w1, w2 = 1 / (f @ p.sum(0) + 1e-5), 1 / (p @ f.sum(0) + 1e-5)
    f = f - (w1[:, None] * f).sum(0) / w1.sum()
    p = p - (w2[:, None] * p).sum(0) / w2.sum()
    u, v = stiefel[:s].T, stiefel[s:].T
    e, r = f @ u, p @ v
    projected = ((w1 * e.norm(dim=1)).sum() + (w2 * r.norm(dim=1)).sum()) / n
    decoded = decoder(torch.cat([e @ u.T, r @ v.T], 1))
    loss = projected**2 + (decoded - x).square().mean()
    logits = ((e @ u.T)[pairs[0]] * (r @ v.T)[pairs[1]]).sum(1)
    edge = nn.functional.binary_cross_entropy_with_logits(logits, is_edge)
    return torch.cat([e, r], 1), loss, loss + edge


def cayley_step(stiefel, second_moment, step, lr=0.01):
    """The exact Cayley transform, where the published optimiser iterates towards it."""
    gradient, x = stiefel.grad.T, stiefel.detach().T
    second_moment = 0.99 * second_moment + 0.01 * gradient.square().sum()
    product = gradient @ x.T
    w = product - 0.5 * x @ (x.T @ product)
    w = (w - w.T) / (second_moment / (1 - 0.99**step) + 1e-8).sqrt()
    alpha = min(1 / (float(w.abs().sum(0).max()) + 1e-8), lr)
    eye = torch.eye(len(w))
    with torch.no_grad():
        stiefel.copy_(torch.linalg.solve(eye + alpha / 2 * w, (eye - alpha / 2 * w) @ x).T)
    return second_moment


@pytest.mark.parametrize("seed", [0, 1])
def test_embeddings_and_losses_follow_the_published_model(seed):
    graph = make_heterophilous_graph(60, 3, n_attributes=20, random_state=seed)
    settings = TrainingSettings(epochs=EPOCHS, seed=seed)
    model = NetworkModel(torch.device("cpu"))
    model.links = model.known_ids = None
    model.unit = 1.0
    inputs = model.inputs(graph)
    assert isinstance(inputs, NodeInputs)
    model.fit(graph, 3, TrainingSettings(1, 0.0, None, seed), n_init=1, n_components=6,
              variant="released")  # fmt: skip
    net, seen = model.net, []
    x = inputs.rows(slice(None), torch.device("cpu")).dense
    with torch.random.fork_rng():
        phi, psi, decoder, stiefel = dense_copy(net)
    train(
        net,
        inputs,
        graph.adjacency,
        settings,
        torch.device("cpu"),
        on_epoch=lambda number, losses, embedding: seen.append((losses(), embedding())),
    )
    adam = torch.optim.Adam([*phi.parameters(), *psi.parameters(), *decoder.parameters()], lr=0.01)
    moment, sampler = torch.zeros(()), PairSampler(graph.adjacency, torch.device("cpu"))
    for step, (losses, embedding) in enumerate(seen, start=1):
        # The edge term is constant, but its gradient counts in the optimiser's second moment.
        drawn = sampler.draw(2 * len(x), _generator(seed, step, torch.device("cpu")))[:2]
        mine, loss, total = forward(x, phi, psi, decoder, stiefel, *drawn)
        mine = mine.detach().numpy()
        np.testing.assert_allclose(embedding, mine, atol=2e-3 * np.abs(mine).max())
        assert losses["edge"] == pytest.approx(np.log(2), abs=1e-5)
        assert losses["wksvd"] + losses["node"] == pytest.approx(float(loss.detach()), rel=2e-3)
        adam.zero_grad()
        stiefel.grad = None
        total.backward()
        adam.step()
        moment = cayley_step(stiefel, moment, step)
