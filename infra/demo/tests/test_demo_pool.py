"""The connection pool by itself."""

import asyncio
import random

import pytest


class Connection:
    """Counts how many of its kind are open."""

    open_now = 0

    def __init__(self) -> None:
        self.usable = True
        Connection.open_now += 1

    def close(self) -> None:
        Connection.open_now -= 1


async def connect() -> Connection:
    await asyncio.sleep(0)
    return Connection()


@pytest.fixture(autouse=True)
def _nothing_open() -> None:
    Connection.open_now = 0


@pytest.mark.parametrize("seed", range(8))
def test_resizing_cancelling_and_failing_never_lose_a_place_nor_exceed_the_size(seed: int) -> None:
    from payments.pool import Pool, PoolTimeout

    dice = random.Random(seed)

    async def scenario() -> None:
        pool = Pool(connect, 4, 0.05)
        largest, in_use = 4, 0

        async def one() -> None:
            nonlocal in_use
            async with pool.connection() as connection:
                in_use += 1
                try:
                    assert in_use <= largest
                    await asyncio.sleep(dice.random() * 0.004)
                    connection.usable = dice.random() > 0.1
                finally:
                    in_use -= 1

        tasks = []
        for _ in range(300):
            tasks.append(asyncio.ensure_future(one()))
            if dice.random() < 0.1:
                dice.choice(tasks).cancel()
            if dice.random() < 0.05:
                size = dice.randint(1, 9)
                largest = max(largest, size)
                pool.resize(size, 0.05)
            await asyncio.sleep(dice.random() * 0.001)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        unexpected = [r for r in results if r is not None and not isinstance(r, PoolTimeout | asyncio.CancelledError)]
        assert not unexpected
        assert sum(r is None for r in results) > 50
        assert (pool.in_use, pool.waiting) == (0, 0)
        assert Connection.open_now == pool.open <= pool.size
        pool.close()
        assert Connection.open_now == 0

    asyncio.run(scenario())


def test_who_came_first_is_served_first_and_who_waits_too_long_is_told() -> None:
    from payments.pool import Pool, PoolTimeout

    async def scenario() -> list[str]:
        pool, order = Pool(connect, 1, 0.15), []

        async def one(name: str) -> None:
            try:
                async with pool.connection():
                    await asyncio.sleep(0.1)
                    order.append(name)
            except PoolTimeout:
                order.append(f"{name} too late")

        await asyncio.gather(*(one(name) for name in "abc"))
        assert pool.waiting == 0
        return order

    assert asyncio.run(scenario()) == ["a", "c too late", "b"]


def test_growing_serves_those_who_wait_already() -> None:
    from payments.pool import Pool

    async def scenario() -> None:
        pool = Pool(connect, 1, 5)
        release = asyncio.Event()

        async def hold() -> None:
            async with pool.connection():
                await release.wait()

        tasks = [asyncio.ensure_future(hold()) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert (pool.in_use, pool.waiting) == (1, 2)
        pool.resize(3, 5)
        await asyncio.sleep(0.01)
        assert (pool.in_use, pool.waiting) == (3, 0)
        pool.resize(1, 5)
        release.set()
        await asyncio.gather(*tasks)
        assert (pool.in_use, pool.open, Connection.open_now) == (0, 1, 1)

    asyncio.run(scenario())


def test_a_place_is_given_back_when_no_connection_can_be_opened() -> None:
    from payments.pool import Pool

    async def refuse() -> Connection:
        raise ConnectionRefusedError

    async def scenario() -> None:
        pool = Pool(refuse, 2, 1)
        for _ in range(5):
            with pytest.raises(ConnectionRefusedError):
                async with pool.connection():
                    pass
        assert pool.in_use == 0

    asyncio.run(scenario())
