from invoice import Position, betrag, netto, rechnung, steuer


def test_a_line_is_its_quantity_times_its_price():
    assert Position("Käse", 3, 450).summe() == 1350


def test_ten_pieces_get_a_rebate():
    assert Position("Käse", 10, 400).summe() == 3800


def test_a_rebate_is_rounded():
    assert Position("Brötchen", 11, 33).summe() == 345


def test_lines_add_up():
    assert netto([Position("a", 1, 100), Position("b", 20, 10)]) == 290


def test_a_tax_is_a_share():
    assert steuer(1000, 7.7) == 77


def test_amounts_are_written_as_people_do():
    assert betrag(1234567, "CHF") == "Fr. 12'345.67"
    assert betrag(5) == "EUR 0.05"


def test_a_letter_names_what_is_to_be_paid():
    letter = rechnung("Frau Größl", [Position("Käse", 2, 500)], 10)
    assert "2 × Käse: EUR 10.00" in letter
    assert "Zu zahlen: EUR 11.00" in letter
    assert letter.endswith("Müller & Söhne")
