import calc


def test_zero():
    assert calc.add(0, 0) == 0


def test_add():
    assert calc.add(1, 2) == 3


def test_double():
    assert calc.double(2) == 4
