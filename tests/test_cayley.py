import pytest
import torch

from hencler._cayley import CayleyAdam


def test_rows_stay_orthonormal_and_the_loss_falls():
    generator = torch.Generator().manual_seed(0)
    target = torch.linalg.qr(torch.randn(16, 4, generator=generator))[0].T
    p = torch.nn.Parameter(torch.linalg.qr(torch.randn(16, 4, generator=generator))[0].T)
    optimiser = CayleyAdam([p], lr=0.1)
    losses = []
    for _ in range(300):
        optimiser.zero_grad()
        loss = (p - target).square().sum()
        loss.backward()
        optimiser.step()
        losses.append(float(loss))
    error = (p @ p.T - torch.eye(4)).abs().max()
    assert float(error) < 1e-5
    assert losses[-1] < 0.5 * losses[0]


def test_one_step_is_the_cayley_transform():
    """Five fixed-point steps agree with the exact inverse."""
    generator = torch.Generator().manual_seed(1)
    x = torch.linalg.qr(torch.randn(8, 3, generator=generator, dtype=torch.float64))[0]
    gradient = torch.randn(3, 8, generator=generator, dtype=torch.float64)
    p = torch.nn.Parameter(x.T.clone())
    p.grad = gradient.clone()
    # A seed whose first draw asks for no QR step.
    CayleyAdam([p], lr=0.01, seed=3).step()
    m = gradient.T
    w_hat = m @ x.T - 0.5 * x @ (x.T @ m @ x.T)
    w = (w_hat - w_hat.T) / torch.sqrt(gradient.square().sum() + 1e-8)
    alpha = min(0.01, float(1 / (w.abs().sum(0).max() + 1e-8)))
    eye = torch.eye(8, dtype=torch.float64)
    exact = torch.linalg.solve(eye + alpha / 2 * w, (eye - alpha / 2 * w) @ x)
    torch.testing.assert_close(p.detach().T, exact, atol=1e-7, rtol=0)


def test_more_rows_than_columns_take_plain_steps():
    p = torch.nn.Parameter(torch.ones(3, 2))
    p.grad = torch.ones(3, 2)
    CayleyAdam([p], lr=0.1).step()
    assert p.detach().numpy() == pytest.approx(0.9)
