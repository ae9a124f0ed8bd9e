import pytest
from agent_r1_wrappers import ParseToolCalls

from tests.helpers.directory_env import DirectoryEnv
from tests.helpers.text_envs import RoomsEnv

CALL = '<tool_call>{"name": "friend", "arguments": {"person": "Zoë"}}</tool_call>'


@pytest.mark.parametrize(
    "reply",
    [
        CALL,
        f"<think>I could write {CALL.replace('Zoë', 'Noël')}.</think>\n\nLet me look.\n{CALL}",
        f"so that is it</think>{CALL}",
        "<tool_call>\n{'name': 'friend', 'arguments': {'person': 'Zoë',},}\n</tool_call>",
        '<tool_call>{"name": "friend", "arguments": {"person": "Zoë"}}',
        '<tool_call>{"name": "friend", "arguments": {"person": "Zoë"}</tool_call>',
        '<tool_call>{"name": "friend", "arguments": {"person": "Zoë"}}}</tool_call>',
        '<tool_call>\n```json\n{"name": "friend", "arguments": {"person": "Zoë"}}\n```\n</tool_call>',
        '<tool_call>{"name": "friend", "arguments": "{\\"person\\": \\"Zoë\\"}"}</tool_call>',
        '<tool_call>{"name": "friend", "arguments": "{\'person\': \'Zoë\'}"}</tool_call>',
        '<tool_call>{"name": "friend", "arguments": "Zoë"}</tool_call>',
        '<tool_call>{"name": "friend", "parameters": {"person": "Zoë"}}</tool_call>',
        '<tool_call>{"type": "function", "function": {"name": "friend", "arguments": {"person": "Zoë"}}}</tool_call>',
        '<tool_call>[{"name": "friend", "arguments": {"person": "Zoë"}}]</tool_call>',
        '```json\n{"name": "friend", "arguments": {"person": "Zoë"}}\n```',
        'thought</think> {"name": "friend", "arguments": {"person": "Zoë"}}</tool_call>',
    ],
)
def test_reads_and_repairs(reply):
    assert ParseToolCalls(DirectoryEnv()).parse(reply) == "friend[Zoë]"


def test_several_calls_and_python_literals():
    form = ParseToolCalls(DirectoryEnv())
    second = "<tool_call>{'name': 'note', 'arguments': {'text': 'a\nb', 'times': 2, 'x': None, 'y': True}}"
    expected = 'friend[Zoë]\n{"name": "note", "arguments": {"text": "a\\nb", "times": 2, "x": null, "y": true}}'
    assert form.parse(CALL + second) == expected
    assert form.parse(CALL.removesuffix("</tool_call>") + second + "</tool_call> bye") == expected
    one_element = (
        '<tool_call>{"name": "city", "arguments": {"person": "a"}}\n{"name": "city", "arguments": {"person": "b"}}'
    )
    assert form.parse(one_element + "</tool_call>") == "city[a]\ncity[b]"


def test_an_argument_may_hold_the_tags_of_the_format():
    form = ParseToolCalls(DirectoryEnv())
    text = "a</tool_call><tool_call></think>b"
    assert form.parse(CALL.replace("Zoë", text)) == f"friend[{text}]"
    assert "</tool_call><tool_call>" not in form.format(f"friend[{text}]")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Zoë", "there is no <tool_call>...</tool_call> in the reply"),
        ("<think>so " + CALL, "<think> is not closed by </think>"),
        ("<tool_call>friend</tool_call>", "tool call 1: expected a JSON object at character 1, found 'friend'"),
        (CALL + "<tool_call>{'name': 'What's'}</tool_call>", "tool call 2: expected ',' or '}'"),
        ('<tool_call>{"name": "friend", "arguments": {"person": "Zo', "tool call 1: a text is not closed"),
        ('<tool_call>{"name": "friend", "arguments": {"person": "Zoë"}', "tool call 1: expected '}'"),
        ('<tool_call>{"arguments": {}}</tool_call>', '"name" must be the name of a tool'),
        ('<tool_call>{"name": "friend", "person": "Zoë"}</tool_call>', 'into an object under "arguments"'),
        ('<tool_call>{"name": "friend", "arguments": {}, "parameters": {}}</tool_call>', "either"),
        ('<tool_call>{"name": "friend", "arguments": [1]}</tool_call>', '"arguments" must be an object'),
        ('<tool_call>{"name": "fly", "arguments": "away"}</tool_call>', '"arguments" of fly must be an object'),
        ('<tool_call>{"name": "note", "name": "city"}</tool_call>', 'the key "name" is given twice'),
        ("<tool_call>[]</tool_call>", "the list of calls is empty"),
        (CALL * 40, "more than 32 tool calls"),
        ('<tool_call>{"name": "note", "arguments": {"text": ' + "[" * 5000 + "</tool_call>", "levels of nesting"),
        ('<tool_call>{"name": "note", "arguments": {"times": 1e999}}</tool_call>', "JSON"),
    ],
)
def test_explains(reply, reason):
    assert reason in ParseToolCalls(DirectoryEnv()).parse(reply).reason


def test_no_call_can_finish():
    form = ParseToolCalls(DirectoryEnv(), no_call="finish")
    assert form.parse("<think>x</think>\nKöln ") == "answer[Köln]"
    assert form.parse("in\nKöln") == '{"name": "answer", "arguments": {"answer": "in\\nKöln"}}'
    assert form.parse("x</think>").reason == "there is neither a tool call nor an answer in the reply"
    assert "tool call 1" in form.parse("<tool_call>{").reason
    assert form.parse(CALL) == "friend[Zoë]"


def test_schemas_in_the_system_message_or_the_template():
    env = DirectoryEnv()
    _, info = ParseToolCalls(env).reset(seed=0)
    assert '"name": "friend"' in info["format_instruction"] and "chat_template_kwargs" not in info
    _, info = ParseToolCalls(env, schemas="template").reset(seed=0)
    assert "format_instruction" not in info
    tools = info["chat_template_kwargs"]["tools"]
    assert tools == info["tools"] and [tool["function"]["name"] for tool in tools] == [
        "friend",
        "city",
        "note",
        "answer",
    ]


def test_an_env_without_tools_gets_one():
    form = ParseToolCalls(RoomsEnv())
    assert form.parse('<tool_call>{"name": "act", "arguments": {"command": "go to hall"}}</tool_call>') == "go to hall"
    assert form.parse('<tool_call>{"name": "act", "arguments": "go to hall"}</tool_call>') == "go to hall"
    assert form.parse(form.format("a") * 2).reason == "there are 2 calls, give one"
    assert form.parse(CALL).reason == 'the only tool is act with a text "command"'
    assert '"name": "act"' in form.instruction()
    named = ParseToolCalls(RoomsEnv(), command_tool="env_step")
    assert '"name": "env_step"' in named.instruction() and named.parse(named.format("go to hall")) == "go to hall"
    assert named.parse(form.format("a")).reason == 'the only tool is env_step with a text "command"'
    with pytest.raises(ValueError, match="command_tool"):
        ParseToolCalls(RoomsEnv(), command_tool=" ")


def test_commands_come_back_in_the_grammar_of_the_env():
    form = ParseToolCalls(DirectoryEnv())
    assert form.parse(form.format('[{"name": "friend", "arguments": {"person": "Zoë"}}]')) == "friend[Zoë]"
    with pytest.raises(ValueError):
        form.format("no call")


@pytest.mark.parametrize("arguments", [{"schemas": "x"}, {"no_call": "x"}, {"no_call": "finish", "finish_tool": "x"}])
def test_refuses(arguments):
    with pytest.raises(ValueError):
        ParseToolCalls(DirectoryEnv(), **arguments)
