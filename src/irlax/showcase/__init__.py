"""`irlax demo`: an introduction in sections, each a file of its own.

To add one, write a file with a function that returns a `Section`, and add it to `SECTIONS`.
"""

from collections.abc import Callable, Mapping

from irlax.report import Page
from irlax.showcase import balancing, by_acting, identifiability, reward_from_walks, risky_path
from irlax.showcase.section import Section

__all__ = ["SECTIONS", "Section", "page"]

#: In the order in which they are read.
SECTIONS: dict[str, Callable[[], Section]] = {
    "planning": risky_path.section,
    "learning": reward_from_walks.section,
    "identifiability": identifiability.section,
    "acting": by_acting.section,
    "balancing": balancing.section,
}


def page(sections: Mapping[str, Section]) -> Page:
    """The report of the demo, with all sections."""
    report = Page(
        "Inverse reinforcement learning with irlax",
        "Inverse reinforcement learning observes an agent, and infers the reward that explains its actions. This page "
        "is an introduction, made by irlax in about a minute: how the agent is modelled, how a reward is learned from "
        "a few walks, how precise the estimate is, what no demonstration can reveal, and how to learn where the "
        "dynamics are not known.",
    )
    for number, section in enumerate(sections.values(), start=1):
        report = section.draw(report.heading(f"{number}. {section.title}"))
    return report
