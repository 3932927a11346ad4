"""The words that fill the slots of the grammar, and the few facts about them that it needs."""


def _words(text: str) -> list[str]:
    return text.split()


HE = _words("Ben Dan Finn Gil Ivo Kai Bob Noah Paul Sam Umar Will")
SHE = _words("Ada Cleo Eve Hana June Lena Mira Olga Rosa Tara Vera Zoe")
NAMES = sorted(HE + SHE)
"""The first half of each list are the users of the demo's scenarios."""

COLORS = _words("red blue green yellow small big round golden silver wooden broken shiny")
NOUNS = _words(
    "kite boat key lamp hat bell drum book map ring clock ball shoe cup letter basket mirror flute"
    " ladder stone"
)
KINDS = _words(
    "dragon robot pirate wizard sailor baker farmer giant teacher painter gardener doctor knight"
    " fisher captain dancer keeper singer astronaut inventor"
)
PLACES = _words(
    "harbour market library lighthouse station school mill bridge bakery lake castle museum farm"
    " garden river tower beach village"
)
ANIMALS = _words("cat dog fox horse goat crow mouse rabbit bear duck frog owl hedgehog donkey")
FOODS = _words("bread cheese soup cake honey rice apples fish nuts")
TIMES = _words("morning evening night summer winter")
DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _words(
    "January February March April May June July August September October November December"
)
NUMBERS = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
CITIES = _words("Oslo Paris Rome Lima Cairo Tokyo Delhi Berlin Quito Seoul Accra Dublin")

SLOTS: dict[str, list[str]] = {
    "hero": NAMES,
    "friend": NAMES,
    "kind": KINDS,
    "place": PLACES,
    "thing": [f"{color} {noun}" for color in COLORS for noun in NOUNS],
    "animal": ANIMALS,
    "food": FOODS,
    "time": TIMES,
    "day": DAYS,
    "number": NUMBERS[3:13],
}
"""Slot -> what can fill it. A slot with a 2 at its end, `{thing2}`, takes another word of the same
list."""

PRONOUNS = {
    "he": ("he", "she"),
    "him": ("him", "her"),
    "his": ("his", "her"),
    "He": ("He", "She"),
    "His": ("His", "Her"),
}
"""Slot -> (for a name of `HE`, for a name of `SHE`). With a 2, `{he2}`, it means the friend."""
