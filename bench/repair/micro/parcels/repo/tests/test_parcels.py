import pytest

from parcels import Parcel, insurance, is_bulky, order_price, price, steps


def test_the_base_price_covers_the_first_step():
    assert price(Parcel(weight=500), "domestic") == 450


def test_every_begun_step_costs_extra():
    assert steps(501) == 1
    assert price(Parcel(weight=1200), "europe") == 900 + 2 * 110


def test_one_long_side_is_enough_to_be_bulky():
    assert is_bulky(Parcel(weight=900, length=150))


def test_a_small_parcel_is_not_bulky():
    assert not is_bulky(Parcel(weight=900))


def test_a_bulky_parcel_costs_extra():
    assert price(Parcel(weight=400, height=121), "world") == 1600 + 700


def test_insurance_has_a_least_price():
    assert insurance(Parcel(weight=100, value=2000)) == 50
    assert insurance(Parcel(weight=100, value=30000)) == 300


def test_a_large_domestic_order_is_sent_for_nothing():
    assert order_price([Parcel(weight=700)], "domestic", goods=6000) == 0
    assert order_price([Parcel(weight=700)], "europe", goods=6000) == 1010


def test_nothing_weighs_nothing():
    with pytest.raises(ValueError):
        steps(0)
