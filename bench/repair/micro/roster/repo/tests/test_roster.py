import pytest

from roster import Course


def course(seats, *names):
    made = Course(seats)
    for name in names:
        made.join(name)
    return made


def test_the_first_get_a_seat():
    assert Course(2).join("ann") is True


def test_there_are_no_more_than_the_seats():
    assert course(2, "ann", "bob", "cid").taken == ["ann", "bob"]


def test_who_comes_last_waits():
    assert course(1, "ann").join("bob") is False


def test_nobody_joins_twice():
    assert course(3, "ann", "ann").taken == ["ann"]


def test_who_waited_longest_moves_up():
    made = Course(1, ["ann"], ["bob", "cid", "dan"])
    assert made.leave("ann") == "bob"
    assert made.waiting == ["cid", "dan"]


def test_who_waits_can_leave():
    made = Course(1, ["ann"], ["bob", "cid"])
    assert made.leave("bob") is None
    assert made.place("cid") == 1


def test_free_seats_are_counted():
    assert course(3, "ann").free == 2


def test_strangers_cannot_leave():
    with pytest.raises(KeyError):
        Course(1).leave("eve")
