"""What the backend of torch.compile has made of graphs: the records behind toroid.explain()."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class GraphReport:
    """One graph that PyTorch handed over: a forward pass, a backward pass, or a pass without gradients."""

    name: str
    nodes: int = 0  # operations of the graph
    compiled: int = 0  # of these, the ones within programs of Toroid
    programs: int = 0  # programs that the graph was divided into
    kernels: int = 0  # kernels that a call launches
    compile_ms: float = 0
    views: Counter[str] = field(default_factory=Counter)  # operations that only look at an argument in another way: by PyTorch, for nothing
    fallbacks: Counter[str] = field(default_factory=Counter)  # operations that PyTorch runs
    reasons: dict[str, str] = field(default_factory=dict)  # why, by operation

    def __str__(self) -> str:
        count = sum(self.views.values())
        views = f" and {count} views of arguments, which cost nothing" if count else ""
        head = (
            f"{self.name}: {self.compiled} of {self.nodes} operations in {self.programs} programs of {self.kernels} kernels, "
            f"{sum(self.fallbacks.values())} by PyTorch{views}, compiled in {self.compile_ms:.0f} ms"
        )
        lines = [f"  by PyTorch: {op} ({count}): {self.reasons.get(op, '')}" for op, count in sorted(self.fallbacks.items())]
        return "\n".join([head, *lines])


@dataclass
class Explanation:
    """All graphs since the process began, or since reset_explain()."""

    graphs: list[GraphReport]

    @property
    def fallbacks(self) -> Counter[str]:
        """Operations that PyTorch runs, by name."""
        return sum((g.fallbacks for g in self.graphs), Counter())

    def __str__(self) -> str:
        return "\n".join(str(g) for g in self.graphs) or "no graphs yet"


_graphs: list[GraphReport] = []


def record(graph: GraphReport) -> None:
    """Remembers a graph that has been compiled."""
    _graphs.append(graph)


def explain() -> Explanation:
    """What became of the graphs that torch.compile has handed over so far, and which of their operations PyTorch runs, and why."""
    return Explanation(list(_graphs))


def reset_explain() -> None:
    """Forgets what explain() would tell."""
    _graphs.clear()
