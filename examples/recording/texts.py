"""What is said and written in the session, word for word."""

from __future__ import annotations

SYSTEM = """\
You are a coding agent. You work in the Git repository at /repo, on the branch main, with the tools that you are given.

- Look before you change something: read the files that matter, and the ones around them.
- Write tests first. A test's docstring is its claim.
- Keep to the style of the code around you. Change what you were asked to change and nothing else.
- Calls that do not need each other's results go side by side.
- Say in a sentence what you are about to do. When you are done, sum up in a few lines and stop.\
"""

TASK = """\
`print(budget)` in our logs shows the representation that attrs makes, with every field, and nobody reads it.
Please give `Budget` a short `str()` in one line: the window, what is reserved for the answer, what is left for the
request, and, when a trigger was given, where a session acts and how far down it goes. All in tokens, also when an
amount was given as a share. Look at how the other values print themselves first, add tests, and commit it when all
tests around it pass.\
"""

FOLLOW_UP = """\
Good. Two wishes before you commit: thousands separators, as everywhere else in our messages, and no word about the
reserve when it is zero. Then run everything beside it again.\
"""

DONE = """\
`str(budget)` now says, for example, `100000 tokens, 25000 reserved, 75000 to send, acts above 60000, down to 30000`.
It works the same for counts and shares, and the representation is as it was. I have not committed yet.\
"""

SUMMARY = """\
Committed. `str(Budget(...))` is one line in tokens, with thousands separators; the reserve is left out when it is
zero, and trigger and target are named only when a trigger was given. The tests are beside those of the module. The
representation (`repr`) is unchanged, so nothing that relies on it has to change.\
"""

TESTS = '''\
from agentctx.budget import Budget


def test_counts_are_said_as_they_are():
    """A budget in counts says the window, the reserve and what is left."""
    assert str(Budget(128_000, 8_000)) == "128000 tokens, 8000 reserved, 120000 to send"


def test_a_share_is_said_in_tokens():
    """A reserve given as a share of the window is printed as the tokens it comes to."""
    assert str(Budget(100_000, 0.25)) == "100000 tokens, 25000 reserved, 75000 to send"


def test_a_trigger_is_named_with_its_target():
    """Where a session acts, and how far down it goes, is said when a trigger was given."""
    budget = Budget(100_000, 0.25, trigger=0.6)
    assert str(budget) == "100000 tokens, 25000 reserved, 75000 to send, acts above 60000, down to 30000"
'''

MORE_TESTS = '''\
from agentctx.budget import Budget


def test_counts_are_said_as_they_are():
    """A budget in counts says the window, the reserve and what is left, with thousands separators."""
    assert str(Budget(128_000, 8_000)) == "128,000 tokens, 8,000 reserved, 120,000 to send"


def test_a_share_is_said_in_tokens():
    """A reserve given as a share of the window is printed as the tokens it comes to."""
    assert str(Budget(100_000, 0.25)) == "100,000 tokens, 25,000 reserved, 75,000 to send"


def test_a_reserve_of_zero_is_not_mentioned():
    """Without a reserve there is no word about one."""
    assert str(Budget(32_000)) == "32,000 tokens, 32,000 to send"


def test_a_trigger_is_named_with_its_target():
    """Where a session acts, and how far down it goes, is said when a trigger was given."""
    budget = Budget(100_000, 0.25, trigger=0.6)
    assert str(budget) == "100,000 tokens, 25,000 reserved, 75,000 to send, acts above 45,000, down to 22,500"
'''

FIRST_VERSION = '''\
    def __str__(self) -> str:
        """One line: the window, what is kept free, what is left, and where a session acts."""
        words = [f"{self.window} tokens", f"{self.output_reserve} reserved", f"{self.limit} to send"]
        if self.trigger != None:
            words.append(f"acts above {self.trigger}, down to {self.target}")
        return ", ".join(words)

'''

SECOND_VERSION = '''\
    def __str__(self) -> str:
        """One line: the window, what is kept free, what is left, and where a session acts."""
        words = [f"{self.window} tokens", f"{self.reserved} reserved", f"{self.limit} to send"]
        if self.trigger != None:
            words.append(f"acts above {self.trigger_tokens}, down to {self.target_tokens}")
        return ", ".join(words)

'''

THIRD_VERSION = '''\
    def __str__(self) -> str:
        """One line: the window, what is kept free, what is left, and where a session acts."""
        words = [f"{self.window:,} tokens"]
        if self.reserved:
            words.append(f"{self.reserved:,} reserved")
        words.append(f"{self.limit:,} to send")
        if self.trigger is not None:
            words.append(f"acts above {self.trigger_tokens:,}, down to {self.target_tokens:,}")
        return ", ".join(words)

'''

SHOW = """\
python - <<'END'
from agentctx.budget import Budget
for budget in (Budget(8_000), Budget(128_000, 8_000), Budget(200_000, 0.1, trigger=0.8, target=0.3)):
    print(budget)
END"""
