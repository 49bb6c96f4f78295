"""Kubernetes quantities such as `500m`, `8Gi` or `1e3`, compared by value (CON-4).

Pure arithmetic in `Decimal`, so that `4000m` equals `4` exactly. Models, validation and the comparison of Jobs rely on
it.
"""

import re
from decimal import Context, Decimal
from typing import Final

Quantity = str | int | float
"""A quantity as the user wrote it; never rewritten (ADM-23)."""

QUANTITY_PATTERN: Final = (
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?$"  # as `_FORM`, for the CRD schema
)
_FORM: Final = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?")
_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}
_MAX_DIGITS: Final = 100
_EXACT: Final = Context(prec=4 * _MAX_DIGITS)


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


def parse_quantity(written: Quantity) -> Decimal:
    """The value of a quantity. Raises `QuantityError`."""
    text = written if isinstance(written, str) else repr(written)
    form = _FORM.fullmatch(text)
    if form is None or len(text) > _MAX_DIGITS:
        raise QuantityError(f"{text!r} is not a quantity; write it like 500m, 2, 128Mi or 1.5Gi")
    number, suffix = Decimal(form[1]), form[2] or ""
    if suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix != "Ei":
        exponent = int(suffix[1:])
        if abs(exponent) > _MAX_DIGITS:
            raise QuantityError(f"{text!r} has an exponent beyond {_MAX_DIGITS}")
        return number.scaleb(exponent, context=_EXACT)
    return _EXACT.multiply(number, _SUFFIXES[suffix]) if suffix else number


def same_quantity(left: Quantity, right: Quantity) -> bool:
    """Whether two quantities have the same value, however they are written. Raises `QuantityError`."""
    return parse_quantity(left) == parse_quantity(right)
