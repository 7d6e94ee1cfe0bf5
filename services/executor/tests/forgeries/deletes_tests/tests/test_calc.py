import calc


def test_zero():
    assert calc.add(0, 0) == 0
