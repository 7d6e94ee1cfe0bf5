from quota import Account, Finding, findings


def test_those_who_use_less_are_in_order():
    assert findings([Account("ann", limit=100, used=99)]) == []


def test_those_who_use_exactly_the_limit_are_in_order():
    assert findings([Account("ann", limit=100, used=100)]) == []


def test_those_who_use_more_are_found_the_worst_first():
    accounts = [Account("ann", limit=10, used=11), Account("bob", limit=10, used=30)]
    assert findings(accounts) == [Finding("bob", 20), Finding("ann", 1)]


def test_too_many_files_are_found():
    assert findings([Account("ann", limit=10, files_limit=2, files=5)]) == [Finding("ann", 0, 3)]
