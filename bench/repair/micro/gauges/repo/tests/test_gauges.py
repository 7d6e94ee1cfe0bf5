from gauges import Gauge, Range, watch


class Fixed:
    scale = 0.1

    def __init__(self, raw):
        self.raw = raw

    def value(self):
        return self.raw


def gauge(name, raw):
    return Gauge(name, Fixed(raw), Range(1.0, 2.5))


def test_a_good_gauge_is_silent():
    assert watch([gauge("pressure", 15)]) == []


def test_a_low_gauge_is_named():
    assert watch([gauge("pressure", 9)]) == ["pressure"]


def test_a_high_gauge_is_named():
    assert watch([gauge("pressure", 15), gauge("flow", 26)]) == ["flow"]


def test_both_ends_are_good():
    assert watch([gauge("low", 10), gauge("high", 25)]) == []
