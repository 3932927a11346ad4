"""Inputs for `tools/load/attack.py`: malformed bodies, and bytes that are not HTTP.

There is one of each kind; `tests/more/server/test_schemathesis.py` sends random ones. To test
another input, add a line.
"""

import json

POSTS = ("/v1/completions", "/v1/chat/completions", "/generate", "/tokenize", "/detokenize")
CONTENT_TYPES = ("", "text/plain", "multipart/form-data; boundary=x", "application/jsonx", "\x80")


def _completion(**fields: object) -> bytes:
    return json.dumps({"prompt": "Hi", "max_tokens": 2, **fields}).encode()


def _chain(begin: str, link: str, end: str, length: int) -> str:
    """A grammar of many names, in which each needs the next one."""
    return begin + "".join(link.format(i, i + 1) for i in range(length)) + end.format(length)


_LONG_CHAIN = _chain(
    '{"$defs":{', '"{}":{{"$ref":"#/$defs/{}"}},', '"{}":{{}}}},"$ref":"#/$defs/0"}}', 2500
)
BODIES = [
    b"", b"\x00", b"\xff\xfe{\x00}\x00", b"null", b"[]", b"{}", b"{'prompt': 'x'}",
    b'{"prompt":"x"', b'{"prompt":"x"} {}', b'{"prompt":"x","prompt":"y"}',
    # depth
    b"[" * 100_000, b'{"a":' * 100_000, b'{"prompt":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    # numbers
    b'{"prompt":"x","temperature":NaN}', b'{"prompt":"x","temperature":-1e999}',
    b'{"prompt":"x","seed":' + b"9" * 5000 + b"}", b'{"prompt":[' + b"9" * 99 + b"]}",
    b'{"prompt":"x","max_tokens":2.0}', b'{"tokens":[-1]}', b'{"tokens":[9223372036854775808]}',
    # characters
    b'{"prompt":"\\ud800"}', b'{"prompt":"\xed\xa0\x80"}', b'{"prompt":"a\\u0000b"}',
    b'{"prompt":"x","stop":"\\ud800"}', b'{"prompt":"x","cache_salt":"\\ud800"}', b'{"\\ud800":1}',
    b'{"messages":[{"role":"user","content":"\\ud800"}]}', b'{"prompt":"x","\\u001b[31m":1}',
    b'{"prompt":"x","model":"\\u001b]0;title\\u0007\\n{\\"level\\":\\"critical\\"}"}',
    # what is not there
    b'{"prompt":"x","model":"../../etc/passwd"}', _completion(tools=[{"type": "function"}]),
    b'{"messages":[{"role":"user","content":'
    b'[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}',
    # much
    _completion(n=10**9), _completion(logprobs=10**9), _completion(max_tokens=1 << 40),
    _completion(stop="a" * 10_000), _completion(prompt=["a"] * 1000),
    _completion(logit_bias={str(i): 100 for i in range(2000)}),
    json.dumps({f"k{i}": i for i in range(50_000)}).encode(),
    json.dumps({"messages": [{}] * 50_000}).encode(),
    json.dumps({"prompt": [1] * 300_000}).encode(),
    # templates and grammars
    _completion(chat_template="{% for i in range(10**9) %}x{% endfor %}"),
    _completion(guided_regex="(((a{1000}){1000}){1000})"),
    _completion(guided_regex="z{50}(a|aa|aaa|aaaa){2000}"), _completion(guided_regex="a?" * 5000),
    _completion(guided_grammar='start: "a" start'),
    _completion(guided_grammar="start: " + "(" * 4000 + '"a"' + ")" * 4000),
    _completion(guided_grammar=_chain("start: r0\n", "r{}: r{}\n", 'r{}: "a"', 550)),
    _completion(guided_choice=[f"{i}x" for i in range(10_000)]),
    _completion(guided_json=_LONG_CHAIN), _completion(structured_outputs={"json": "{" * 90_000}),
    _completion(guided_json={"type": "array", "items": {"not": {}}, "minItems": 10**9}),
    _completion(guided_json={"description": "x" * 1_000_000}),
]  # fmt: skip
"""Bodies that are sent to every POST route."""

_GET, _POST = (
    "GET /health HTTP/1.1\r\nHost: {host}\r\n",
    "POST /generate HTTP/1.1\r\nHost: {host}\r\n",
)
_CHUNKED = _POST + "Transfer-Encoding: chunked\r\n\r\n"
RAW = [
    "\r\n" * 1000, "\x16\x03\x01\x02\x00" * 50, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "G" * 300_000,
    "GET /health HTTP/1.1\r\n\r\n", "GET /health HTTP/9.9\r\nHost: {host}\r\n\r\n",
    "GET /health HTTP/1.1\nHost: {host}\n\n", "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n",
    "GET http://evil.example/health HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /%00%0d%0aX:y HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /\x1b[31m HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /" + "a" * 200_000 + " HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "CONNECT evil.example:443 HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "BREW /health HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "OPTIONS /v1/completions HTTP/1.1\r\nHost: {host}\r\nOrigin: http://evil.example\r\n"
    "Access-Control-Request-Method: POST\r\n\r\n",
    _GET + "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    _GET + "".join(f"x-{i}: y\r\n" for i in range(5000)) + "\r\n",
    _GET + "x: " + "y" * 5_000_000, _GET + "x : y\r\n\r\n", _GET + "x: a\x00b\r\n\r\n",
    _GET + "Authorization: Bearer \xff\xfe\r\n\r\n",
    "GET /events HTTP/1.1\r\nHost: {host}\r\nLast-Event-ID: 99999999999999999999999\r\n\r\n",
    _POST + "Content-Length: -1\r\n\r\n", _POST + "Content-Length: " + "9" * 40 + "\r\n\r\n",
    _POST + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    _POST + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _GET + "\r\n",
    _POST + "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n",
    _CHUNKED + "zz\r\n", _CHUNKED + "ffffffffffffffff\r\n{}", _CHUNKED + "2;" + "x" * 100_000,
    (_GET + "\r\n") * 500, (_POST + "Content-Length: 2\r\n\r\n{}") * 200,
]  # fmt: skip
"""Bytes that are sent unchanged, in Latin-1; `{host}` is replaced by the server's address."""
