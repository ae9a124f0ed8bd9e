"""What ``StandardTokenizer`` takes for one emoji: Unicode's emoji sequences, with the emoji of Unicode 11.

Later versions of Unicode call other characters pictographic, so the ranges are written down here: from
``unicode.org/Public/emoji/11.0/emoji-data.txt``, in hexadecimal.
"""

from __future__ import annotations

import re
from typing import Final

_PICTOGRAPHIC: Final = """
A9 AE 203C 2049 2122 2139 2194-2199 21A9-21AA 231A-231B 2328 2388 23CF 23E9-23F3 23F8-23FA 24C2 25AA-25AB 25B6
25C0 25FB-25FE 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271D 2721 2728 2733-2734 2744 2747
274C 274E 2753-2755 2757 2763-2767 2795-2797 27A1 27B0 27BF 2934-2935 2B05-2B07 2B1B-2B1C 2B50 2B55 3030 303D
3297 3299 1F000-1F0FF 1F10D-1F10F 1F12F 1F16C-1F171 1F17E-1F17F 1F18E 1F191-1F19A 1F1AD-1F1E5 1F201-1F20F 1F21A
1F22F 1F232-1F23A 1F23C-1F23F 1F249-1F3FA 1F400-1F53D 1F546-1F64F 1F680-1F6FF 1F774-1F77F 1F7D5-1F7FF
1F80C-1F80F 1F848-1F84F 1F85A-1F85F 1F888-1F88F 1F8AE-1F8FF 1F90C-1F93A 1F93C-1F945 1F947-1FFFD
"""
_MODIFIER_BASE: Final = """
261D 26F9 270A-270D 1F385 1F3C2-1F3C4 1F3C7 1F3CA-1F3CC 1F442-1F443 1F446-1F450 1F466-1F469 1F46E 1F470-1F478
1F47C 1F481-1F483 1F485-1F487 1F4AA 1F574-1F575 1F57A 1F590 1F595-1F596 1F645-1F647 1F64B-1F64F 1F6A3
1F6B4-1F6B6 1F6C0 1F6CC 1F918-1F91C 1F91E-1F91F 1F926 1F930-1F939 1F93D-1F93E 1F9B5-1F9B6 1F9B8-1F9B9
1F9D1-1F9DD
"""


def emoji() -> str:
    """Return the pattern of one emoji, for the package ``regex`` in its version 1 syntax."""
    extended = r"[[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]--[\uFE0E\uFE0F]]*"
    modified = rf"(?:\u200D*{_class(_MODIFIER_BASE)}{extended})?[\U0001F3FB-\U0001F3FF]{extended}"
    one = rf"(?:{modified}|\u200D*{_class(_PICTOGRAPHIC)}{extended}\uFE0F?)"
    tag = r"[\U000E0020-\U000E007E]+\U000E007F"
    key = rf"[0-9#*]{extended}\uFE0F?\u20E3{extended}"
    flag = r"(?:\p{WB=Regional_Indicator}[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*){2}"
    joined = rf"(?:(?:\u200D|(?<=\u200D)){one})*"  # what is before may have taken the joiner already
    return rf"{one}(?:{tag}|{joined})|{key}|{flag}"


def _class(ranges: str) -> str:
    codes = re.sub(r"[0-9A-F]+", lambda code: rf"\U{int(code[0], 16):08X}", ranges)
    return f"[{''.join(codes.split())}]"
