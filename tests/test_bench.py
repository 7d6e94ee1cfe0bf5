"""The figures of `bench/` against their bars: how quick the services decide, and what they take at rest."""

from collections.abc import Callable

import pytest

from bench import latency, memory

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

Record = Callable[[str, int, str, str], None]


async def test_long_from_webhook_to_applying_it_takes_half_a_second_at_most(record_figure: Record) -> None:
    found = await latency.measure()
    figure = f"p50 {found['p50_s']:.3f} s, p95 {found['p95_s']:.3f} s, its appends alone p50 {found['floor_p50_s']:.4f} s"
    record_figure("webhook to applying", latency.MANY, figure, f"p95 {latency.BAR_S} s")
    assert found["p95_s"] <= latency.BAR_S, found


@pytest.mark.parametrize("name", memory.BARS_MB)
def test_long_all_rooms_in_one_process_stay_within_their_memory(name: str, record_figure: Record) -> None:
    found = memory.measure(name == "embedder")
    record_figure(f"idle memory, {name}", 1, f"{found:.0f} MB", f"{memory.BARS_MB[name]} MB")
    assert found <= memory.BARS_MB[name]
