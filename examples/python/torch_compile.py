"""Trains a small network through torch.compile with Toroid as the backend, and says what was compiled. Needs PyTorch 2.10."""

import torch
import toroid.torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
compiled = torch.compile(net, backend="toroid")
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
points = torch.rand(256, 2) * 2 - 1
inside = (points.square().sum(1, keepdim=True) < 0.5).float()  # of a circle

for step in range(150):
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(compiled(points), inside)
    loss.backward()
    optimizer.step()
right = ((compiled(points) > 0) == inside.bool()).float().mean()
print(f"loss {loss:.2f}, right {right:.0%}")
print(toroid.explain())
