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
    """The demo's report."""
    made = Page(
        "What do they want?",
        "Inverse reinforcement learning watches someone act, and asks which rewards would make them act like that. "
        "This page is an introduction, made by irlax in about a minute: how the one who acts is modelled, how a reward "
        "is learned from a few walks, how sure one can be of it, what no demonstration can tell, and how to learn "
        "where the dynamics are not known.",
    )
    for number, section in enumerate(sections.values(), start=1):
        made = section.draw(made.heading(f"{number}. {section.title}"))
    return made
