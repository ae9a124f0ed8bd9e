"""Colour words: the original's reward sees nothing of an option but the first colour word in it."""

from typing import Final

__all__ = ["COLOURS", "normalise_colour"]

COLOURS: Final = tuple(
    """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
    caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
    dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
    ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
    mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand
    sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
    wheat white wine yellow
    """.split()
)
"""In the order in which they are looked for."""


def normalise_colour(option: str | tuple[str, str]) -> str | tuple[str, str]:
    """Return the first of the colour words that ``option`` holds, or ``option`` itself.

    Args:
        option: A value, which holds a colour as a part of it (``tan`` in ``standard``), or a pair of group and value,
            which holds one only if group or value is a colour and nothing else.

    Example:
        >>> normalise_colour("washed black"), normalise_colour("standard"), normalise_colour(("color", "dark blue"))
        ('ash', 'tan', ('color', 'dark blue'))
    """
    for colour in COLOURS:
        if colour in option:
            return colour
    return option
