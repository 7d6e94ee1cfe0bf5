import pytest

from parcels import Parcel, is_bulky, price


@pytest.mark.parametrize("sides", [(121, 1, 1), (1, 121, 1), (1, 1, 121), (121, 121, 121)])
def test_any_side_over_the_bound_makes_it_bulky(sides):
    length, width, height = sides
    assert is_bulky(Parcel(100, length, width, height))


def test_the_bound_itself_is_not_bulky():
    assert not is_bulky(Parcel(100, 120, 120, 120))


def test_a_parcel_that_is_not_bulky_pays_no_extra():
    assert price(Parcel(100, 120, 40, 40), "domestic") == 450
    assert price(Parcel(100, 120, 40, 40, value=100), "domestic", insured=True) == 500
