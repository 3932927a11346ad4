"""Chat templates render as in transformers; control tokens in a message stay text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from runtime.text.test_tokenizer import MODELS, copied, directories, ours, theirs

from minivllm.errors import InvalidRequestError
from minivllm.runtime.store.provenance import HOUSE_FOLDER
from minivllm.runtime.text.chat_template import ChatTemplate
from minivllm.runtime.text.tokenizer import Tokenizer

__all__ = ["directories", "ours", "theirs"]


# ---- as in transformers ----

CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  Why?\n"}],
    [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "2", "tool_calls": None},
        {"role": "user", "content": "你好 <|im_|end> 🤗"},
    ],
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("messages", CONVERSATIONS, ids=["one", "system", "many"])
def test_a_chat_prompt_is_that_of_transformers(ours, theirs, model, messages):
    expected = theirs[model].apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )
    assert ours[model].apply_chat_template(messages) == expected


WHITE_SPACE = """
    {%- for message in messages %}
        {%- if loop.first and message.role == 'system' %}
    [{{ message.content }}]
        {% else %}
{{ '\\n' + message['role'] }}: {{ message['content'] }}
        {% endif %}
    {%- endfor %}
{% if add_generation_prompt %}>{% endif %}
"""
TEMPLATES = [
    WHITE_SPACE,
    "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ m }}{% endfor %}",
    "{{ messages | tojson }}{{ {'<b>': \"'é'\"} | tojson(indent=2) }}",
    "{% set x = 1 %}{% generation %}{% set x = 2 %}  {{ x }}{% endgeneration %}{{ x }}",
    "{% if tools is not none %}T{% endif %}{% if documents is defined %}D{% endif %}",
    "{{ eos_token }}{{ sep_token is defined }}{{ strftime_now('%Y') | length }}",
]


@pytest.mark.parametrize("template", TEMPLATES, ids=range(6))
def test_any_template_renders_as_in_transformers(theirs, template):
    for messages in CONVERSATIONS:
        expected = theirs["house"].apply_chat_template(
            messages, chat_template=template, add_generation_prompt=True, tokenize=False
        )
        rendered = ChatTemplate(template, theirs["house"].special_tokens_map).render(messages)
        assert rendered == expected


TOOLS_TEMPLATE = (
    "{%- if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}</tools>"
    "{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for call in message.tool_calls %}<tool_call>{{ call.function.arguments | tojson }}"
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
)


def test_tools_and_calls_render_as_in_transformers_and_make_no_control_tokens(
    ours, theirs, tmp_path
):
    copied(HOUSE_FOLDER, tmp_path)
    (tmp_path / "chat_template.jinja").write_text(TOOLS_TEMPLATE)
    function = {"name": "f", "description": "<b>é", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    tokenizer = Tokenizer.from_directory(tmp_path)
    assert tokenizer.template_knows_tools
    expected = theirs["house"].apply_chat_template(
        messages, tools=tools, chat_template=TOOLS_TEMPLATE, return_dict=False
    )
    assert tokenizer.apply_chat_template(messages, tools) == expected
    function["description"] = "<|im_end|>"
    call["function"]["arguments"] = {"<|im_end|>": "<|im_start|>"}
    controls = tokenizer.encode("<|im_start|><|im_end|>")
    ids = tokenizer.apply_chat_template(messages, tools)
    assert [id_ for id_ in ids if id_ in controls] == controls and len(controls) == 2


def test_messages_without_a_role_and_models_without_a_template_are_refused(
    ours, tmp_path, tiny_random_path
):
    for messages in (["Hi"], [{"role": 7, "content": "Hi"}]):
        with pytest.raises(InvalidRequestError, match="must be a dict with a role"):
            ours["house"].apply_chat_template(messages)
    (tmp_path / "tokenizer.json").write_bytes((tiny_random_path / "tokenizer.json").read_bytes())
    with pytest.raises(InvalidRequestError, match="no chat template"):
        Tokenizer.from_directory(tmp_path).apply_chat_template(CONVERSATIONS[0])


# ---- text in a message stays text ----


PIECES = ["<|im_start|>", "<|im_", "end|>", "|", "<", "a", "\U000f0000", " ", "\n"]


@given(
    text=st.lists(st.sampled_from(PIECES)).map("".join), place=st.sampled_from(["role", "content"])
)
@settings(max_examples=30)
@example("".join(f"{i}<|im_end|>" for i in range(1200)), "content")
@example("\U000f0000<|im_end|>\U000f0001 <|endoftext|>", "role")
@example("<|im_<|im_start|>start|>", "role")
def test_no_text_in_a_message_makes_a_control_token(ours, text, place):
    tokenizer = ours["tiny-random"]
    message = {"role": "user", "content": "Hi"} | {place: text}
    ids = tokenizer.apply_chat_template([message])
    assert [id_ for id_ in ids if id_ in tokenizer._special_ids] == [1, 2, 1]
    rendered = f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
    written = f"{rendered}<|im_start|>assistant\n"
    assert tokenizer.decode(ids, skip_special_tokens=False) == written, "nothing is lost"


# ---- forbidden operations ----


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('a secret of the template') }}",
        "{% include 'etc/passwd' %}",
        "{{ cycler.__init__.__globals__.os.system('id') }}",
        "{{ self._TemplateReference__context.environment.extend(x=1) }}",
        "{{ (''|attr('__class__'))|attr('__mro__') + 1 }}",
        "{{ '{0.__class__.__mro__}'.format('') + 1 }}",
        "{{ messages.__setitem__(0, 1) }}",
    ],
)
def test_a_forbidden_template_operation_is_refused_without_details_for_clients(source):
    with pytest.raises(InvalidRequestError, match="does not accept these messages") as refused:
        ChatTemplate(source, {}).render(CONVERSATIONS[0])
    assert "secret" not in str(refused.value)
    if "secret" in source:
        assert "secret" in str(refused.value.__cause__), "the cause is the template's own message"
