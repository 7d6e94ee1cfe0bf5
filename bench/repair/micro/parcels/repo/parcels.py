"""What it costs to send a parcel. All prices are in cents, all lengths in centimetres, all weights in grams."""

from dataclasses import dataclass

BASE = {"domestic": 450, "europe": 900, "world": 1600}
STEP_GRAMS = 500
STEP_PRICE = {"domestic": 60, "europe": 110, "world": 240}
FREE_FROM = 6000
INSURANCE_RATE = 0.01
INSURANCE_LEAST = 50
BULKY_SIDE = 120
BULKY_PRICE = 700


@dataclass(frozen=True)
class Parcel:
    """One box."""

    weight: int
    length: int = 30
    width: int = 20
    height: int = 10
    value: int = 0


def steps(weight: int) -> int:
    """How many begun steps of 500 g a weight has beyond the first, which the base price covers."""
    if weight <= 0:
        raise ValueError(f"a parcel weighs something, not {weight} g")
    begun = -(-weight // STEP_GRAMS)
    return begun - 1


def is_bulky(parcel: Parcel) -> bool:
    """A parcel is bulky when any of its sides is longer than 120 cm."""
    return parcel.length > BULKY_SIDE and parcel.width > BULKY_SIDE and parcel.height > BULKY_SIDE


def insurance(parcel: Parcel) -> int:
    """One per cent of the value, at least 50 cents; nothing for what is worth nothing."""
    if parcel.value == 0:
        return 0
    return max(INSURANCE_LEAST, round(parcel.value * INSURANCE_RATE))


def price(parcel: Parcel, zone: str, *, insured: bool = False) -> int:
    """The whole price. Raises KeyError for a zone that is not served."""
    total = BASE[zone] + steps(parcel.weight) * STEP_PRICE[zone]
    if is_bulky(parcel):
        total += BULKY_PRICE
    if insured:
        total += insurance(parcel)
    return total


def order_price(parcels: list[Parcel], zone: str, goods: int) -> int:
    """Price for all parcels of an order; domestic orders over 60 euros are sent for nothing."""
    if zone == "domestic" and goods >= FREE_FROM:
        return 0
    return sum(price(parcel, zone) for parcel in parcels)
