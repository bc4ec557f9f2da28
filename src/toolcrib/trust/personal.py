"""Personal data in texts: e-mail addresses, card numbers, IBANs and telephone numbers, known by their shapes.

Card numbers have to pass Luhn's check and have the length of a known network, IBANs the check of ISO 7064 and
the length of their country, so that other long numbers are left alone. Telephone numbers have no check: they
need a plus, the North American form, or a word before them. Every pattern is linear.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

PersonalKind = Literal["e-mail", "card", "iban", "phone"]

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}+@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
_NOBODY = re.compile(
    r"(?:git|no-?reply|do-?not-?reply|mailer-daemon)@|.*[@.]example(?:\.(?:com|org|net|edu))?$"
    r"|.*\.(?:invalid|test|local|localhost|png|jpe?g|gif|svg|js|css)$",
    re.IGNORECASE,
)
"""Addresses of machines, those that standards set aside for examples, and names of files."""
_DIGITS = re.compile(r"(?<![\w.,+-])\d(?:[ -]?\d){12,18}(?![\w-]|[.,]\d)", re.ASCII)
_NETWORKS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|5\d\d|4[4-9]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}"
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}", re.ASCII)
_LENGTHS = {
    length: frozenset(countries.split())
    for length, countries in (
        (15, "NO"),
        (16, "BE"),
        (18, "DK FI FK FO GL NL SD"),
        (19, "MK SI"),
        (20, "AT BA EE KZ LT LU MN XK"),
        (21, "CH HR LI LV"),
        (22, "BG BH CR DE GB GE IE ME RS VA"),
        (23, "AE GI IL IQ OM SO TL"),
        (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
        (25, "LY PT ST"),
        (26, "IS TR"),
        (27, "BI DJ FR GR IT MC MR SM"),
        (28, "AL AZ BY CY DO GT HN HU LB NI PL SV"),
        (29, "BR EG PS QA UA"),
        (30, "JO KW MU YE"),
        (31, "MT SC"),
        (32, "LC"),
        (33, "RU"),
    )
}
"""How long the IBANs of countries are."""
_PHONE = re.compile(
    r"""
    (?<![\w+.-])(?:
      \+[1-9](?:[ ().-]{0,2}\d){7,14}
    | (?:\([2-9]\d\d\)\ ?|[2-9]\d\d[-.])[2-9]\d\d[-.]\d{4}
    | (?P<word>(?i:tel|phone|telephone|mobile|cell|fax|telefon|handy|mobil|téléphone|teléfono|telefono)
        \.?(?:\ ?(?:no|nr|number|nummer)\.?)?["']?\ ?[:=]\ ?["']?)
      \(?\d(?:[ ()/.-]{0,2}\d){6,14}
    )(?![\w-]|\.\d)
    """,
    re.VERBOSE | re.ASCII,
)
_MAYBE_IBAN = re.compile(r"[A-Z]{2}\d{2}", re.ASCII)
_MAYBE_NUMBER = re.compile(r"(?:\d\D*){7}", re.ASCII)
"""What every text with a card number or a telephone number has in it: seven digits."""
_MODULUS = 97
"""Of ISO 7064."""


class PersonalData(NamedTuple):
    """Something in a text that belongs to a person."""

    first: int
    last: int
    """The character after its last."""
    kind: PersonalKind


def find_personal_data(text: str) -> Iterator[PersonalData]:
    """Yield the personal data of a text.

    >>> text = "Anna <anna@acme.io>, 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, +49 30 901820"
    >>> [(each.kind, text[each.first : each.last][:9]) for each in find_personal_data(text)]
    [('e-mail', 'anna@acme'), ('card', '4111 1111'), ('iban', 'DE89 3704'), ('phone', '+49 30 90')]
    """
    if "@" in text:
        for found in _EMAIL.finditer(text):
            if not _NOBODY.match(found[0]):
                yield PersonalData(*found.span(), "e-mail")
    is_number = _MAYBE_NUMBER.search(text) is not None
    for found in _DIGITS.finditer(text) if is_number else ():
        if is_card_number(re.sub(r"\D", "", found[0])):
            yield PersonalData(*found.span(), "card")
    for found in _IBAN.finditer(text) if _MAYBE_IBAN.search(text) else ():
        length = _iban_length(found[0])
        if length:
            yield PersonalData(found.start(), found.start() + length, "iban")
    for found in _PHONE.finditer(text) if is_number else ():
        yield PersonalData(found.end("word") if found["word"] else found.start(), found.end(), "phone")


def is_card_number(digits: str) -> bool:
    """Return whether digits are a number of a payment card.

    >>> is_card_number("378282246310005"), is_card_number("378282246310006")
    (True, False)
    """
    if not _NETWORKS.fullmatch(digits) or len(set(digits)) == 1:
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (1 + place % 2)
        total += doubled // 10 + doubled % 10
    return total % 10 == 0


def _iban_length(text: str) -> int:
    """Return how many characters of a text, with spaces, are an IBAN; 0 if it begins with none."""
    wanted = next((length for length, countries in _LENGTHS.items() if text[:2] in countries), 0)
    characters = [(place, char) for place, char in enumerate(text) if char != " "][:wanted]
    if not wanted or len(characters) < wanted:
        return 0
    end = characters[-1][0] + 1
    if text[end : end + 1].isalnum():
        return 0
    plain = "".join(char for _, char in characters)
    number = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
    return end if int(number) % _MODULUS == 1 else 0
