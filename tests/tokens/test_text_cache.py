import sys
from threading import Thread

import pytest
from hypothesis import given, strategies as st

from agentctx.tokens.tiktoken import TextCache


def test_what_was_put_is_found():
    """A text that was counted has its count, another has none."""
    cache = TextCache()
    cache.put("hello", 7)
    assert (cache.get("hello"), cache.get("world")) == (7, None)


@given(texts=st.lists(st.text(max_size=200), max_size=80))
def test_it_is_bounded_and_right(texts):
    """Whatever is put, the cache never holds more than it may, and what it still has is right."""
    cache = TextCache(most=10)
    for text in texts:
        cache.put(text, len(text))
        assert len(cache) <= 10
        assert cache.get(text) == len(text)


def test_what_is_asked_for_stays():
    """A text that is asked for again and again outlives any number of texts that are not."""
    cache = TextCache(most=50)
    cache.put("often", 1)
    for number in range(1_000):
        cache.put(f"once {number}", number)
        assert cache.get("often") == 1
    assert cache.get("once 0") is None


@pytest.mark.parametrize("length", [10, 10_000])
def test_memory_is_bounded_whatever_the_texts(length):
    """A full cache takes the memory that it says, whether its texts are short or long."""
    cache = TextCache(most=2_000)
    for number in range(5_000):
        cache.put(f"{number}".rjust(length), 1_000 + number)
    generations = cache._young, cache._old
    held = [*generations, *(number for each in generations for entry in each.items() for number in entry)]
    assert sum(map(sys.getsizeof, held)) <= cache.bytes <= 2_000 * 140


def test_threads_share_it():
    """Threads that put and get at the same time lose nothing and break nothing."""
    cache = TextCache()

    def work(name):
        for number in range(500):
            cache.put(f"{name} {number}", number)
            assert cache.get(f"{name} {number}") == number

    threads = [Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == 2_000


def test_clearing_forgets():
    """After clearing nothing is known and nothing is held."""
    cache = TextCache()
    cache.put("hello", 1)
    cache.clear()
    assert (cache.get("hello"), len(cache), cache.bytes) == (None, 0, 0)
