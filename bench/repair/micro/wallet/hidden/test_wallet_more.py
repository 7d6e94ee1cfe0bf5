import asyncio

import pytest

from wallet import Wallet, move


def run(*steps):
    async def together():
        return await asyncio.gather(*steps)

    return asyncio.run(together())


@pytest.mark.parametrize("tasks", [2, 7, 50])
def test_many_who_put_all_count(tasks):
    wallet = Wallet()
    run(*(wallet.put(n + 1) for n in range(tasks)))
    assert wallet.balance == sum(range(1, tasks + 1))


def test_money_is_neither_made_nor_lost():
    one, two = Wallet(1000), Wallet(1000)
    run(*(move(one, two, 10) for _ in range(20)), *(move(two, one, 7) for _ in range(20)))
    assert one.balance + two.balance == 2000
    assert two.balance == 1000 + 200 - 140


def test_a_slow_ledger_changes_nothing():
    async def slow(line):
        for _ in range(len(line) * 3):
            await asyncio.sleep(0)

    wallet = Wallet(0, slow)
    run(wallet.put(1), wallet.put(1000), wallet.put(10))
    assert wallet.balance == 1011


def test_what_is_in_the_wallet_comes_back():
    assert run(Wallet(5).put(3)) == [8]
