import pytest
from hypothesis import given, settings, strategies as st

from agentctx import Context, Message, Text, Tool, count
from agentctx.engine.reading import reader
from agentctx.models.table import profile
from agentctx.tokens import TiktokenCounter
from agentctx.tokens.counting import MessageMeter, default_counter, json_tools, openai_tools

COUNT = TiktokenCounter().count
WEATHER = Tool(
    "get_current_weather",
    "Get the current weather in a given location",
    {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
            "unit": {
                "type": "string",
                "description": "The unit of temperature to return",
                "enum": ["celsius", "fahrenheit"],
            },
        },
        "required": ["location"],
    },
)


def cookbook(tool):
    """OpenAI's cookbook, num_tokens_for_tools, for one tool of the gpt-4o family."""
    total = 7 + COUNT(tool.name + ":" + tool.description.rstrip("."))
    properties = tool.parameters["properties"]
    total += 3 if properties else 0
    for key, value in properties.items():
        total += 3
        if "enum" in value:
            total += -3 + sum(3 + COUNT(item) for item in value["enum"])
        total += COUNT(key + ":" + value["type"] + ":" + value["description"].rstrip("."))
    return total + 12


WORDS = st.text(st.sampled_from("abc XYZ._"), max_size=12)
FLAT = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer"]), "description": WORDS}, optional={"enum": st.lists(WORDS)}
)


@given(name=WORDS.filter(bool), description=WORDS, properties=st.dictionaries(WORDS, FLAT, max_size=4))
def test_flat_schemas_cost_what_the_cookbook_says(name, description, properties):
    """For flat schemas the formula is the published one."""
    tool = Tool(name, description, {"type": "object", "properties": properties, "required": list(properties)})
    assert openai_tools((tool,), COUNT) == cookbook(tool)


@pytest.mark.parametrize(
    ("model", "billed"), [("gpt-4o", 101), ("gpt-4o-mini", 101), ("gpt-4", 105), ("gpt-3.5-turbo", 105)]
)
def test_published_example(model, billed):
    """The cookbook's example request costs what the cookbook says that the API billed for it."""
    system = "You are a helpful assistant that can answer to questions about the weather."
    asked = "What's the weather like in San Francisco?"
    messages = (Message("system", (Text(system),)), Message("user", (Text(asked),)))
    assert MessageMeter(default_counter(model), profile(model)).size(Context(messages, None, (WEATHER,))) == billed


def test_no_tools_cost_nothing():
    """Without tools nothing is added."""
    assert (openai_tools((), COUNT), json_tools((), COUNT)) == (0, 0)


def nested(inner):
    """A tool whose one property holds ``inner``."""
    return Tool("run", "Runs.", {"type": "object", "properties": {"options": {"type": "object", **inner}}})


def test_nested_schemas_are_counted():
    """What stands deeper in a schema costs tokens, wherever it stands."""
    flat = openai_tools((nested({}),), COUNT)
    inner = {"type": "string", "description": "The name of the thing that is to be looked for in all the places"}
    deep = [
        {"properties": {"name": inner}},
        {"items": inner},
        {"anyOf": [inner, {"type": "null"}]},
        {"$defs": {"name": inner}},
        {"items": {"type": "object", "properties": {"name": {"type": "array", "items": inner}}}},
        {"default": inner["description"]},
        {"pattern": "^[a-z0-9]{1,64}(-[a-z0-9]{1,64}){0,8}$"},
    ]
    assert all(openai_tools((nested(each),), COUNT) >= flat + 10 for each in deep)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "properties", "items", "enum", "anyOf", "x"]), inner, max_size=4)
    ),
)


@given(
    parameters=st.dictionaries(
        st.sampled_from(["type", "properties", "items", "enum", "anyOf", "$defs"]), JSON, max_size=5
    )
)
def test_any_schema_is_counted(parameters):
    """A schema that is no schema costs something and does not raise."""
    tool = Tool("run", "Runs.", parameters)
    assert openai_tools((tool,), COUNT) > 7 + 12
    assert json_tools((tool,), COUNT) > 7


def test_server_tools_cost_by_their_definition():
    """A tool without a name is counted by what its definition says."""
    tool = Tool("", source={"type": "web_search", "filters": {"allowed_domains": ["example.org"] * 20}})
    assert openai_tools((tool,), COUNT) > 60


def test_tools_that_the_provider_defines_have_their_price():
    """Anthropic's own tools cost what its pages say, not what their short names say."""
    tool = Tool("computer", source={"type": "computer_20250124", "name": "computer"})
    assert json_tools((tool,), COUNT) == 4_500 + 7


def spelled(name, description, schema):
    """One tool in every format."""
    declared = {"name": name, "description": description}
    return {
        "openai-chat": {"type": "function", "function": {**declared, "parameters": schema}},
        "openai-responses": {"type": "function", **declared, "parameters": schema, "strict": False},
        "anthropic": {**declared, "input_schema": schema},
        "gemini": {"functionDeclarations": [{**declared, "parametersJsonSchema": schema}]},
        "bedrock": {"toolSpec": {**declared, "inputSchema": {"json": schema}}},
    }


@pytest.mark.parametrize(
    "model", ["claude-opus-5", "claude-3-haiku", "gpt-5.4", "gpt-4", "gemini-2.5-pro", "deepseek-chat"]
)
@settings(max_examples=5)
@given(
    fields=st.dictionaries(
        st.from_regex(r"[a-z]{1,12}", fullmatch=True), st.sampled_from(["string", "integer", "array"])
    )
)
def test_tools_cost_the_same_in_all_formats_of_one_model(model, fields):
    """What tools cost is the model's matter: Claude through a gateway pays for them as on its own API."""
    properties = {name: {"type": kind, "description": f"The {name}."} for name, kind in fields.items()}
    tools = spelled(
        "search", "Search the project.", {"type": "object", "properties": properties, "required": [*fields]}
    )
    costs = {}
    for name, tool in tools.items():
        message = {"role": "user", ("parts" if name == "gemini" else "content"): [{"text": "q"}]}
        plain = message if name in {"gemini", "bedrock"} else {"role": "user", "content": "q"}
        costs[name] = count([plain], format=name, model=model, tools=[tool]) - count([plain], format=name, model=model)
    assert len(set(costs.values())) == 1, costs


SERVER_TOOLS = {
    "openai-responses": [
        {"type": "web_search"},
        {"type": "web_search", "filters": {"allowed_domains": ["example.org"] * 20}},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
    ],
    "anthropic": [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["example.org"] * 20},
        {"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
    ],
}


@pytest.mark.parametrize("format_name", SERVER_TOOLS)
def test_server_tools_are_counted_whatever_was_counted_before(format_name):
    """What a provider's own tool costs is told by its definition, also where its name is another one's."""
    read, tools = reader([], format=format_name, counter=TiktokenCounter()), SERVER_TOOLS[format_name]
    contexts = [Context((), *read.head(None, [tool])) for tool in tools]
    sizes = [(read.meter.fixed(each), read.meter.bytes(each)) for each in (*contexts, *contexts[::-1])]
    assert sizes == sizes[::-1]
    assert len(set(sizes)) == len(tools)
