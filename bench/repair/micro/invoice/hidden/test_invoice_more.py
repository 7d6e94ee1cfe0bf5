from pathlib import Path

import pytest

import invoice
from invoice import Position, rechnung


@pytest.mark.parametrize(("pieces", "sum_"), [(9, 900), (10, 950), (11, 1045), (100, 9500)])
def test_the_rebate_begins_with_ten(pieces, sum_):
    assert Position("x", pieces, 100).summe() == sum_


def test_a_letter_counts_the_rebate():
    letter = rechnung("Ötzi", [Position("Öl", 10, 1000)], 20, "CHF")
    assert "Netto: Fr. 95.00" in letter
    assert "Zu zahlen: Fr. 114.00" in letter


def test_the_file_is_still_written_as_it_was():
    data = Path(invoice.__file__).read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n")
    assert b"f\xfcr Kunden in der Schweiz und in \xd6sterreich" in data
    assert data.count(b"\xfc") == 6
