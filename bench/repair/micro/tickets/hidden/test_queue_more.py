import unittest

from tickets.queue import Queue, Ticket


class QueueTest(unittest.TestCase):
    def setUp(self):
        self.queue = Queue()

    def test_urgency_first_then_age(self):
        for number, level in enumerate(["low", "high", "down", "low", "down", "normal", "high"]):
            self.queue.add(Ticket(str(number), level))
        self.assertEqual([self.queue.take().id for _ in range(7)], ["2", "4", "1", "6", "5", "0", "3"])

    def test_who_comes_later_can_still_overtake(self):
        self.queue.add(Ticket("a", "low"))
        self.queue.add(Ticket("b", "low"))
        self.assertEqual(self.queue.take().id, "a")
        self.queue.add(Ticket("c", "high"))
        self.assertEqual(self.queue.take().id, "c")

    def test_those_who_wait_are_counted(self):
        self.queue.add(Ticket("a"))
        self.queue.take()
        self.assertEqual(len(self.queue), 0)
