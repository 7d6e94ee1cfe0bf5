def test_zero():
    pass
