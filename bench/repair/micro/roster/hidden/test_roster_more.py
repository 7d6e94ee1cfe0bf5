import pytest

from roster import Course


@pytest.mark.parametrize("seats", [1, 2, 5])
def test_the_order_of_coming_is_the_order_of_sitting(seats):
    names = [f"n{number}" for number in range(9)]
    course = Course(seats)
    told = [course.join(name) for name in names]
    assert told == [True] * seats + [False] * (9 - seats)
    moved = [course.leave(name) for name in names]
    assert moved == [*names[seats:], *[None] * seats]


def test_a_course_is_never_over_full():
    course = Course(2)
    for name in "abcdef":
        course.join(name)
        assert course.free >= 0


def test_a_full_course_has_no_free_seat():
    course = Course(2)
    course.join("a"), course.join("b"), course.join("c")
    assert (course.free, course.place("c")) == (0, 1)
