r"""Characters that nobody sees in a text, and that do something all the same.

>>> HIDDEN.sub("?", "red \x1b[31malert \u202etxt.exe\u200b")
'red ?[31malert ?txt.exe?'
>>> HIDDEN.search("tabs\tand lines\nare text, as are naïve, שלום and ❤️") is None
True
"""

import re

__all__ = ["HIDDEN"]

HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # steer a terminal; a carriage return lets a line be written over
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # turn the direction of text
    "\u2028\u2029"  # end a line where nobody expects it
    "\u00ad\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3"  # no width
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # tags and variations, which a model reads
    "]"
)
"""What steers a terminal, turns the direction of text or hides in it.

Some scripts and emoji need a few of these, and files of Windows the carriage return: whoever complains of
them rather than replaces them has to let those pass.
"""
