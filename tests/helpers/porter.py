"""Martin Porter's stemmer as his later program has it, rule by rule: the reference for the one that is used."""

import re

_STEP2 = (
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize "
    "ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble logi:log"
)
_STEP3 = "icate:ic ative: alize:al iciti:ic ical:ic ful: ness:"
_STEP4 = "al ance ence er ic able ible ant ement ment ent sion tion ou ism ate iti ous ive ize".split()


def stem(word: str) -> str:
    if len(word) < 3:
        return word
    word = _step1(word)
    for rules in (_STEP2, _STEP3):
        for rule in rules.split(" "):
            ending, new = rule.split(":")
            if word.endswith(ending):
                if _measure(word[: -len(ending)]) > 0:
                    word = word[: -len(ending)] + new
                break
    for ending in _STEP4:
        if word.endswith(ending):
            base = word[: -(3 if ending in ("sion", "tion") else len(ending))]
            word = base if _measure(base) > 1 else word
            break
    if word.endswith("e"):
        base = word[:-1]
        if _measure(base) > 1 or (_measure(base) == 1 and not _is_cvc(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _step1(word: str) -> str:
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        word = word[:-1] if _measure(word[:-3]) > 0 else word
    else:
        for ending in ("ed", "ing"):
            if word.endswith(ending) and "v" in _shape(word[: -len(ending)]):
                word = _restore(word[: -len(ending)])
                break
    return word[:-1] + "i" if word.endswith("y") and "v" in _shape(word[:-1]) else word


def _restore(word: str) -> str:
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c":
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _measure(word) == 1 and _is_cvc(word) else word


def _shape(word: str) -> str:
    """Return c for each consonant and v for each vowel."""
    shape = ""
    for place, letter in enumerate(word):
        vowel = letter in "aeiou" or (letter == "y" and place > 0 and shape[-1] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    return len(re.findall("v+c+", _shape(word)))


def _is_cvc(word: str) -> bool:
    return len(word) > 2 and _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"
