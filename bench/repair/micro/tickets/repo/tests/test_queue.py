import unittest

from tickets.queue import Queue, Ticket, urgency


def order(*tickets):
    queue = Queue()
    for ticket in tickets:
        queue.add(ticket)
    return [queue.take().id for _ in range(len(queue))]


class UrgencyTest(unittest.TestCase):
    def test_levels_are_ordered(self):
        levels = [urgency(Ticket("t", level)) for level in ("low", "normal", "high", "down")]
        self.assertEqual(levels, sorted(levels))

    def test_premium_is_one_step_ahead(self):
        self.assertEqual(urgency(Ticket("t", "low", premium=True)), urgency(Ticket("t", "normal")))

    def test_premium_is_never_ahead_of_down(self):
        self.assertLess(urgency(Ticket("t", "high", premium=True)), urgency(Ticket("t", "down")))

    def test_an_unknown_level_is_refused(self):
        with self.assertRaises(ValueError):
            urgency(Ticket("t", "whenever"))


class QueueTest(unittest.TestCase):
    def test_the_oldest_of_equals_comes_first(self):
        self.assertEqual(order(Ticket("a"), Ticket("b"), Ticket("c")), ["a", "b", "c"])

    def test_the_most_urgent_comes_first(self):
        self.assertEqual(order(Ticket("a", "low"), Ticket("b", "down"), Ticket("c", "high")), ["b", "c", "a"])

    def test_premium_overtakes(self):
        self.assertEqual(order(Ticket("a"), Ticket("b", premium=True)), ["b", "a"])

    def test_nothing_is_taken_from_an_empty_queue(self):
        with self.assertRaises(IndexError):
            Queue().take()


if __name__ == "__main__":
    unittest.main()
