"""An option is refused in one sentence: the class, the option, the wanted, the value."""

import pytest
from attrs import field, frozen

from agentctx import ConfigError
from agentctx.validators import NAMES, NOT_BLANK, SHARE, as_names, function, list_of, one_of, template, whole_number


@frozen
class Options:
    """A class with an option of many kinds."""

    number: int = field(default=1, validator=whole_number(1, 9))
    _share: float | None = field(default=None, validator=SHARE.or_none)
    names: frozenset[str] = field(default=frozenset(), converter=as_names, validator=NAMES)
    end: str = field(default="head", validator=one_of(("head", "tail", "both")))
    hook: object = field(default=print, validator=function("a function of a text"))
    mark: str = field(default="{left}", validator=[NOT_BLANK, template("left", "tool")])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"number": 0}, "Options.number must be a whole number from 1 to 9, got 0"),
        ({"number": 10}, "Options.number must be a whole number from 1 to 9, got 10"),
        ({"number": True}, "Options.number must be a whole number from 1 to 9, got True"),
        ({"number": 1.0}, "Options.number must be a whole number from 1 to 9, got 1.0"),
        ({"share": float("nan")}, "Options.share must be a number from 0 to 1, or None, got nan"),
        ({"share": "1"}, "Options.share must be a number from 0 to 1, or None, got '1'"),
        ({"names": "read"}, "Options.names must be a list of names, got 'read'"),
        ({"names": None}, "Options.names must be a list of names, got None"),
        ({"names": [7]}, "Options.names[0] must be a text, got 7"),
        ({"names": [[]]}, "Options.names[0] must be a text, got []"),
        ({"end": []}, "Options.end must be 'head', 'tail' or 'both', got []"),
        ({"hook": str}, "Options.hook must be a function of a text, got <class 'str'>"),
        ({"mark": " "}, "Options.mark must be a text that is not blank, got ' '"),
        (
            {"mark": "{a} {left}"},
            "Options.mark must be a text with nothing but {left} and {tool} in braces, got '{a} {left}'",
        ),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(options, sentence):
    """The error names the class and the option as a caller writes it."""
    with pytest.raises(ConfigError) as caught:
        Options(**options)
    assert str(caught.value) == sentence


def test_a_function_checks_its_options_with_the_same_validators():
    """An error names the function, the option and the place in a list, and shows 80 characters."""
    list_of(whole_number(0), "numbers").check("gather.limits", (0, 1))
    with pytest.raises(ConfigError) as caught:
        list_of(whole_number(0), "numbers").check("gather.limits", [0, "x" * 500])
    begin = "gather.limits[1] must be a whole number of at least 0, got '"
    assert str(caught.value).startswith(f"{begin}xxx")
    assert len(str(caught.value)) == len(begin) - 1 + 80
