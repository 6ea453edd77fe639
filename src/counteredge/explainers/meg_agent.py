"""The agent of MEG: a deep Q-network with a target network, a replay memory and draws of its own."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from counteredge.explainers.options import number, whole

__all__ = ["Agent", "AgentOptions"]

WIDTHS = (512, 128, 32, 1)
Remembered = tuple[Tensor, float, Tensor | None]


@dataclass(frozen=True)
class AgentOptions:
    """How the agent learns.

    Attributes:
        lr: Step size of Adam.
        gamma: What a reward one step later is worth.
        polyak: Share of the target network that stays at each step.
        memory: Transitions that are remembered.
        epsilon: First share of steps that are taken at random.
        decay: Factor on that share after each episode.
    """

    lr: float = 1e-4
    gamma: float = 0.95
    polyak: float = 0.995
    memory: int = 10_000
    epsilon: float = 1.0
    decay: float = 0.9987

    def __post_init__(self) -> None:
        number("AgentOptions: lr", self.lr, 0, open_below=True)
        for name in ("gamma", "polyak", "epsilon", "decay"):
            number(f"AgentOptions: {name}", getattr(self, name), 0, 1)
        whole("AgentOptions: memory", self.memory, 1)


class Agent:
    r"""Values molecules, chooses among them, and learns one remembered transition a step.

    .. math:: L = huber(Q(s'), r + \gamma \max_{s''} Q^-(s'')), \quad Q^- \gets \rho Q^- + (1 - \rho) Q

    Args:
        width: Numbers that describe a molecule.
        options: See :class:`AgentOptions`.
        seed: Of the first weights and of every draw.

    Source:
        Zhou et al., Optimization of Molecules via Deep Reinforcement Learning (Scientific Reports 2019).
    """

    def __init__(self, width: int, options: AgentOptions, seed: int) -> None:
        self.options, self.epsilon = options, options.epsilon
        self.generator = torch.Generator().manual_seed(seed)
        self.network, self.target = self._network(width), self._network(width)
        self.target.load_state_dict(self.network.state_dict())
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=options.lr, fused=True)
        self.memory: deque[Remembered] = deque(maxlen=options.memory)

    def _network(self, width: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for a, b in pairwise((width, *WIDTHS)):
            # the usual first weights, but out of the agent's own generator
            layer: nn.Linear = nn.utils.skip_init(nn.Linear, a, b)  # type: ignore[no-untyped-call]
            for p in layer.parameters():
                p.data.uniform_(-(a**-0.5), a**-0.5, generator=self.generator)
            layers += [layer, nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def choose(self, actions: Tensor) -> int:
        """At random with the share ``epsilon``, the most valuable otherwise.

        Shapes:
            actions: ``(K, width)``.
        """
        if float(torch.rand((), generator=self.generator)) < self.epsilon:
            return int(torch.randint(len(actions), (), generator=self.generator))
        with torch.no_grad():
            return int(self.network(actions)[:, 0].argmax())

    def learn(self, action: Tensor, reward: float, following: Tensor | None) -> None:
        """Remember a transition and learn from one drawn out of the memory.

        Args:
            action: The molecule that was chosen.
            reward: What it gave.
            following: The molecules that can be chosen next; ``None`` at the end.

        Shapes:
            action: ``(width,)``; following: ``(K, width)``.
        """
        self.memory.append((action, reward, following))
        action, reward, following = self.memory[int(torch.randint(len(self.memory), (), generator=self.generator))]
        aim = torch.tensor(reward)
        if following is not None:
            with torch.no_grad():
                aim = aim + self.options.gamma * self.target(following.float()).max()
        loss = nn.functional.smooth_l1_loss(self.network(action.float())[0], aim)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        with torch.no_grad():
            for old, new in zip(self.target.parameters(), self.network.parameters(), strict=True):
                old.lerp_(new, 1 - self.options.polyak)

    def end_episode(self) -> None:
        """Fewer steps at random from now on."""
        self.epsilon *= self.options.decay
