"""The laws of stores catch stores that break them, and hold for stores that do only a part."""

from hashlib import sha256
from math import inf

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve
from store_laws import LAWS_OF_OURS

from agentctx.errors import StoreError
from agentctx.stores import MemoryStore
from agentctx.testing import check_store
from agentctx.testing.store_laws import WRITERS, hold_to

pytestmark = pytest.mark.anyio


class Whole(MemoryStore):
    """A store as it should be, of which others break one promise each."""


class ForgetsKeys(Whole):
    async def append(self, name, messages, version, /, *, key=None):  # noqa: ARG002 - which is what is wrong
        return await super().append(name, messages, version)


class ChecksNoVersion(Whole):
    async def append(self, name, messages, version, /, *, key=None):
        return await super().append(name, messages, None if version else 0, key=key)


class StatesOfAnyVersion(Whole):
    async def save_state(self, name, changed, version, /, *, key=None):
        return await super().save_state(name, changed, None if version else 0, key=key)


class Unstamped:
    """A back end whose versions begin at 1, whatever the time is."""

    def __init__(self, backend):
        self.backend = backend

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def write(self, claim, what):
        return self.backend.write(claim, evolve(what, stamp=0))


class BeginsAnewWhenPurged(Whole):
    purged = False

    @property
    def backend(self):
        return Unstamped(super().backend) if self.purged else super().backend

    async def purge(self, name, /):
        size = await super().purge(name)
        self.backend._floor, self.purged = 0, True
        return size


class TellsAll(Whole):
    def for_conversation(self, name, /):  # noqa: ARG002 - which is what is wrong
        return self


class Strips(Whole):
    async def get(self, handle, /):
        return (await super().get(handle)).rstrip(b"\0")


class TextOnly(Whole):
    async def append(self, name, messages, version, /, *, key=None):
        clean = [{k: v.replace("\0", "") if isinstance(v, str) else v for k, v in each.items()} for each in messages]
        return await super().append(name, clean, version, key=key)


class NewestFirst(Whole):
    async def load(self, name, /):
        known = await super().load(name)
        return type(known)(known.messages[::-1], known.version)


class NeverExpires(Whole):
    def _claim(self, owner=b"", name=""):
        return evolve(super()._claim(owner, name), expires=inf)


class PurgesOthersToo(Whole):
    async def purge(self, name, /):
        await super().purge("y")
        return await super().purge(name)


class ForgetsSubAgents(Whole):
    async def purge(self, name, /):
        start = f"c{name}/".encode("utf-8", "surrogatepass")
        below = [each for each in self.backend.owners if each.startswith(start)]
        hidden = {each: self.backend.owners.pop(each) for each in below}
        size = await super().purge(name)
        self.backend.owners |= hidden
        return size


class KeepsPlainText(Whole):
    def _closed(self, content, whose):  # noqa: ARG002 - which is what is wrong
        return b"\0" + content


class Unlimited(Whole):
    def _claim(self, owner=b"", name=""):
        return evolve(super()._claim(owner, name), most=inf)


class DropsTheState(Whole):
    async def save_state(self, name, changed, version, /, *, key=None):
        known = await self.load_state(name)
        gone = dict.fromkeys(known.pieces)
        return await super().save_state(name, gone | dict(changed), version, key=key)


BROKEN = list(Whole.__subclasses__())


def places(kind):
    """Make stores of a kind, the same one at the same place."""
    stores = {}

    def make(place, **options):
        store = stores.setdefault(place, kind(**options))
        store.cipher = options.get("cipher")
        return store

    return make


async def test_a_whole_store_passes():
    """What keeps its promises is not refused."""
    await check_store(places(Whole))
    await hold_to(LAWS_OF_OURS, places(Whole))


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_broken_store_is_caught(kind):
    """A store that breaks one promise breaks a law, and the message says what was expected."""
    with pytest.raises(AssertionError, match="expected"):
        await hold_to(LAWS_OF_OURS, places(kind))


class Small:
    """A store of contents only: all that the pipeline asks for."""

    def __init__(self):
        """Nothing is kept yet."""
        self.contents = {}

    async def put(self, content, /):
        """Keep it."""
        for handle, known in self.contents.items():
            if known == content:
                return handle
        self.contents[f"handle {len(self.contents)}"] = content
        return f"handle {len(self.contents) - 1}"

    async def get(self, handle, /):
        """Give it back."""
        if handle not in self.contents:
            raise StoreError
        return self.contents[handle]


class Blanks(Small):
    async def get(self, handle, /):
        return (await super().get(handle)).strip()


class ByLength(Small):
    async def put(self, content, /):
        self.contents[str(len(content))] = content
        return str(len(content))


class Overwrites(Small):
    async def put(self, content, /):
        known = dict(self.contents)
        await anyio.lowlevel.checkpoint()
        handle = sha256(content).hexdigest()
        self.contents = known | {handle: content}
        return handle


class Few(Small):
    async def put(self, content, /):
        handle = sha256(content).hexdigest()
        self.contents = dict([*self.contents.items(), (handle, content)][-WRITERS:])
        return handle


class RaisesAnything(Small):
    async def get(self, handle, /):
        return self.contents[handle]


class NotAsync(Small):
    def put(self, content, /):
        self.contents["one"] = content
        return "one"


@pytest.mark.parametrize("kind", Small.__subclasses__())
async def test_a_broken_store_of_contents_is_caught(kind):
    """What gives back other bytes, loses some of many, or raises what no caller expects breaks a law that is named."""
    stores = {}
    with pytest.raises(AssertionError, match="expected"):
        await check_store(lambda place, **_options: stores.setdefault(place, kind()))


async def test_a_store_of_contents_only_is_held_to_what_it_does():
    """Laws about histories, states, bounds and ciphers are not asked of a store that has none."""
    stores = {}
    await check_store(lambda place, **_options: stores.setdefault(place, Small()))
