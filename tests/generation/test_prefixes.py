"""The search for what is known of a prompt, against a look at every row."""

from __future__ import annotations

import random
import time
from zlib import crc32

from agent_r1_trainer._compat import RowCache
from agent_r1_trainer.generation.contexts import CachedRow
from agent_r1_trainer.generation.prefixes import PrefixIndex
from agent_r1_trainer.trajectory import TokenIds

CACHE = RowCache(1, 1)


def test_the_longest_row_is_found_as_by_looking_at_all():
    rng = random.Random(0)
    for _ in range(200):
        rows = [
            CachedRow(TokenIds(rng.randrange(2) for _ in range(rng.randint(1, 7))), CACHE, row) for row in range(12)
        ]
        index = PrefixIndex(rows)
        for _ in range(8):
            prompt = [rng.randrange(2) for _ in range(rng.randint(1, 8))]
            fitting = [row for row in rows if len(row.ids) < len(prompt) and prompt[: len(row.ids)] == list(row.ids)]
            # The first of equals: which row's numbers are read is the same from run to run.
            expected = max(fitting, key=lambda row: (len(row.ids), -row.row), default=None)
            assert index.longest(TokenIds(prompt)) is expected


def test_nothing_is_known_of_nothing():
    assert PrefixIndex([]).longest(TokenIds([1, 2])) is None
    assert PrefixIndex([CachedRow(TokenIds([1, 2]), CACHE, 0)]).longest(TokenIds([1, 2])) is None  # one must be left


def test_an_equal_checksum_is_not_taken_for_an_equal_row():
    one, other = twins()
    assert one != other and crc32(one.tobytes()) == crc32(other.tobytes())
    for rows in ([one], [other, one], [one, other]):
        known = [CachedRow(ids, CACHE, row) for row, ids in enumerate(rows)]
        found = PrefixIndex(known).longest(other.extended([5]))
        assert (found and found.ids) == (other if other in rows else None)


def twins() -> tuple[TokenIds, TokenIds]:
    """Two rows with one checksum: CRC-32 is linear, so that adding its polynomial (33 bits here) changes nothing."""
    plain = TokenIds([1000, 2000, 3000])
    changed = (int.from_bytes(plain.tobytes(), "little") ^ (0xEDB88320 << 1 | 1) << 5).to_bytes(12, "little")
    return plain, TokenIds(int.from_bytes(changed[at : at + 4], "little", signed=True) for at in (0, 4, 8))


def test_many_rows_of_one_length_and_ending_cost_no_more_each():
    """Episodes of one environment often have prompts of equal lengths that end alike."""

    def seconds(count: int) -> float:
        rng = random.Random(count)
        ids = [TokenIds([*(rng.randrange(1000) for _ in range(20)), *range(20)]) for _ in range(count)]
        begin = time.process_time()
        index = PrefixIndex(CachedRow(each, CACHE, row) for row, each in enumerate(ids))
        assert all(index.longest(each.extended([1])).row == row for row, each in enumerate(ids))
        return time.process_time() - begin

    seconds(100)
    few, many = min(seconds(400) for _ in range(3)), min(seconds(3200) for _ in range(3))
    assert many < 3 * 8 * few  # a look at all: 64 times as much
