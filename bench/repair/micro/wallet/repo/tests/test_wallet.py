import asyncio

import pytest

from wallet import TooLittle, Wallet, move


def run(*steps):
    async def together():
        return await asyncio.gather(*steps)

    return asyncio.run(together())


def test_money_is_put_in():
    wallet = Wallet()
    run(wallet.put(500))
    assert wallet.balance == 500


def test_money_is_paid():
    wallet = Wallet(500)
    run(wallet.pay(120))
    assert (wallet.balance, wallet.spent) == (380, 120)


def test_nobody_pays_more_than_there_is():
    wallet = Wallet(100)
    with pytest.raises(TooLittle):
        run(wallet.pay(101))
    assert wallet.balance == 100


def test_two_who_put_at_the_same_time_both_count():
    wallet = Wallet()
    run(wallet.put(100), wallet.put(50))
    assert wallet.balance == 150


def test_a_payment_while_somebody_puts_is_not_forgotten():
    wallet = Wallet(100)
    run(wallet.put(10), wallet.pay(60))
    assert wallet.balance == 50


def test_every_change_is_written_once():
    lines = []

    async def keep(line):
        lines.append(line)

    wallet = Wallet(10, keep)
    run(wallet.put(5))
    run(wallet.pay(3))
    assert lines == ["+5", "-3"]


def test_money_moves_between_wallets():
    mine, yours = Wallet(100), Wallet(0)
    run(move(mine, yours, 30))
    assert (mine.balance, yours.balance) == (70, 30)
