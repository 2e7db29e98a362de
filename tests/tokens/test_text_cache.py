import sys
from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

from agentctx.tokens.cache import ENTRY_BYTES, TextCache


def test_what_was_put_is_found():
    """A text that was counted has its count, another has none."""
    cache = TextCache()
    cache.put("hello", 7)
    assert (cache.get("hello"), cache.get("world")) == (7, None)


@given(texts=st.lists(st.text(max_size=200), max_size=80))
def test_memory_is_bounded(texts):
    """Whatever is put, the cache never takes more than it may, and what it still has is right."""
    cache = TextCache(max_bytes=4_000, max_text=500)
    for text in texts:
        cache.put(text, len(text))
        assert cache.bytes <= 4_000
        assert cache.get(text) in {len(text), None}


def test_what_is_asked_for_stays():
    """A text that is asked for again and again outlives any number of texts that are not."""
    cache = TextCache(max_bytes=10_000)
    cache.put("often", 1)
    for number in range(1_000):
        cache.put(f"once {number}", number)
        assert cache.get("often") == 1
    assert cache.get("once 0") is None


def test_long_texts_are_not_kept():
    """A text longer than the limit is counted anew rather than kept."""
    cache = TextCache(max_text=1_000)
    cache.put("x" * 2_000, 250)
    assert (cache.get("x" * 2_000), cache.bytes) == (None, 0)


def test_bytes_are_those_of_the_texts():
    """The memory in use is that of the texts and of their entries."""
    cache = TextCache()
    cache.put("hello", 1)
    cache.put("hello", 1)
    assert (sys.getsizeof("hello") + ENTRY_BYTES, 1) == (cache.bytes, len(cache))


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
