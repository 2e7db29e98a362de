"""Where what was left out is kept, with histories and the states of sessions."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.stores.memory import MemoryStore as MemoryStore
    from agentctx.stores.postgres import PostgresStore as PostgresStore
    from agentctx.stores.redacting import RedactingStore as RedactingStore
    from agentctx.stores.redis import RedisStore as RedisStore
    from agentctx.stores.sqlite import SQLiteStore as SQLiteStore
    from agentctx.stores.store import Cipher as Cipher, ConversationStore as ConversationStore, Stored as Stored
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.stores.memory": "MemoryStore",
            "agentctx.stores.postgres": "PostgresStore",
            "agentctx.stores.redacting": "RedactingStore",
            "agentctx.stores.redis": "RedisStore",
            "agentctx.stores.sqlite": "SQLiteStore",
            "agentctx.stores.store": "Cipher ConversationStore Stored",
        },
    )
