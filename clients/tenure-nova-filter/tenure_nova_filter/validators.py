"""Extra specs of the namespace `tenure`, so that Nova's API refuses mistyped ones."""

from __future__ import annotations

from nova.api.validation.extra_specs import base


def register() -> list[base.ExtraSpecValidator]:
    """Return the extra specs that there are."""
    texts: dict[str, tuple[str, dict[str, object]]] = {
        "tenure:market": ("Servers of this flavor may be evicted.", {"enum": ["spot"]}),
        "tenure:flavor": ("The flavor that this is the spot twin of.", {"pattern": r".{1,255}"}),
        "tenure:lifetime": (
            "How long a server will run that does not say it.",
            {"pattern": r"[0-9]{1,12}(\.[0-9]{1,6})?\s*[smhd]?"},
        ),
        "tenure:probability": (
            "The largest probability of an eviction that is accepted.",
            {"pattern": r"0?\.[0-9]{1,12}([eE]-[0-9]{1,2})?|[1-9](\.[0-9]{1,12})?[eE]-[0-9]{1,2}"},
        ),
    }
    return [
        base.ExtraSpecValidator(name=name, description=told, value={"type": str, "description": told, **limits})
        for name, (told, limits) in texts.items()
    ]
