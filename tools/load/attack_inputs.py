"""Inputs for the attacks of `tools/load/attack.py`: malformed bodies, and bytes that are not HTTP.

To test another input, add a line.
"""

import json
import random

POSTS = ("/v1/completions", "/v1/chat/completions", "/generate", "/tokenize", "/detokenize")
JSON = "application/json"


def _completion(**fields: object) -> bytes:
    return json.dumps({"prompt": "Hi", "max_tokens": 2, **fields}).encode()


def _chain(begin: str, link: str, end: str, length: int) -> str:
    """A grammar of many names, in which each needs the next one."""
    return begin + "".join(link.format(i, i + 1) for i in range(length)) + end.format(length)


BODIES: list[bytes] = [
    b"",
    b" ",
    b"\x00",
    b"\xff\xfe{\x00}\x00",
    b"\xef\xbb\xbf{}",
    b"null",
    b"true",
    b"0",
    b'""',
    b"[]",
    b"{}",
    b"{",
    b"}",
    b'{"',
    b'{"prompt"',
    b'{"prompt":',
    b'{"prompt":"x"',
    b'{"prompt":"x",}',
    b"{'prompt': 'x'}",
    b'{"prompt":"x"} {}',
    b'{"prompt":"x"}\x00',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"prompt":' + b"[" * 31 + b"]" * 31 + b"}",
    b'{"prompt":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    b'{"prompt":"x","temperature":NaN}',
    b'{"prompt":"x","temperature":Infinity}',
    b'{"prompt":"x","temperature":-Infinity}',
    b'{"prompt":"x","temperature":1e999}',
    b'{"prompt":"x","temperature":-1e999}',
    b'{"prompt":"x","top_p":1e-999}',
    b'{"prompt":"x","seed":' + b"9" * 5000 + b"}",
    b'{"prompt":"x","max_tokens":' + b"9" * 99 + b"}",
    b'{"prompt":[' + b"9" * 99 + b"]}",
    b'{"prompt":"x","n":1e400}',
    b'{"prompt":"x","seed":-0}',
    b'{"prompt":"x","max_tokens":-0.0}',
    b'{"prompt":"x","max_tokens":2.0}',
    b'{"prompt":"\\ud800"}',
    b'{"prompt":"\\udfff\\ud800"}',
    b'{"prompt":"\xed\xa0\x80"}',
    b'{"prompt":"\\u0000"}',
    b'{"prompt":"a\x00b"}',
    b'{"prompt":"x","stop":"\\ud800"}',
    b'{"prompt":"x","user":"\\ud800"}',
    b'{"prompt":"x","cache_salt":"\\ud800"}',
    b'{"prompt":"x","model":"\\ud800"}',
    b'{"prompt":"x","request_id":"\\ud800"}',
    b'{"\\ud800":1}',
    b'{"prompt":"x","logit_bias":{"\\ud800":1}}',
    b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    b'{"messages":[{"role":"user","content":"x","name":"\\udc00"}]}',
    b'{"messages":[{"role":"\\u0000","content":"x"}]}',
    b'{"messages":[{"role":"user","content":[{"type":"text","text":"\\ud800"}]}]}',
    b'{"messages":[{"role":"user","content":'
    b'[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]}',
    b'{"prompt":"x","prompt":"y"}',
    b'{"prompt":"x","__proto__":{}}',
    b'{"prompt":"x","\\u001b[31m":1}',
    b'{"prompt":"x","a\\nb":1}',
    b'{"prompt":"x","model":"\\u001b]0;title\\u0007\\n{\\"level\\":\\"critical\\"}"}',
    b'{"prompt":"x","model":"../../etc/passwd"}',
    b'{"tokens":[0.5]}',
    b'{"tokens":[-1]}',
    b'{"tokens":[2147483647]}',
    b'{"tokens":[9223372036854775808]}',
    b'{"tokens":null}',
    _completion(n=16, best_of=16),
    _completion(n=10**9),
    _completion(logprobs=10**9),
    _completion(max_tokens=1 << 40),
    _completion(stop=["x"] * 5),
    _completion(logit_bias={str(i): 100 for i in range(2000)}),
    _completion(stop="a" * 10_000),
    _completion(prompt=["a"] * 1000),
    _completion(prompt=[[]] * 64),
    _completion(echo=True, logprobs=20, max_tokens=0),
    _completion(tools=[{"type": "function"}]),
    _completion(chat_template="{% for i in range(10**9) %}x{% endfor %}"),
    _completion(guided_regex="(a+)+$"),
    _completion(guided_regex="(((a{1000}){1000}){1000})"),
    _completion(guided_regex="z{50}(a|aa|aaa|aaaa){2000}"),
    _completion(guided_regex="a?" * 5000),
    _completion(guided_grammar='start: "a" start'),
    _completion(guided_grammar="start: " + "(" * 4000 + '"a"' + ")" * 4000),
    _completion(guided_grammar="root ::= " + "(" * 4000 + '"a"' + ")" * 4000),
    _completion(guided_grammar=_chain("start: r0\n", "r{}: r{}\n", 'r{}: "a"', 550)),
    _completion(guided_choice=[f"{i}x" for i in range(10_000)]),
    _completion(
        guided_json=_chain(
            '{"$defs":{', '"{}":{{"$ref":"#/$defs/{}"}},', '"{}":{{}}}},"$ref":"#/$defs/0"}}', 2500
        )
    ),
    _completion(guided_json={"type": "array", "items": {"not": {}}, "minItems": 10**9}),
    _completion(structured_outputs={"json": "{" * 90_000}),
    _completion(structured_outputs={"json_object": True, "whitespace_pattern": "(a{1000}){1000}"}),
    _completion(response_format={"type": "json_object"}),
    _completion(
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"description": "x" * 1_000_000}},
        }
    ),
    json.dumps({f"k{i}": i for i in range(50_000)}).encode(),
    json.dumps({"messages": [{}] * 50_000}).encode(),
    json.dumps({"prompt": [1] * 300_000}).encode(),
]
"""Bodies that are sent to every POST route."""

CONTENT_TYPES = (
    "",
    "text/plain",
    "text/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/xml",
    "application/json; charset=utf-16",
    "application/jsonx",
    "application/json, text/html",
    "APPLICATION/JSON",
    "\x80",
)

_HOST = "Host: {host}\r\n"
RAW: list[str] = [
    "GET /health HTTP/1.1\r\n\r\n",
    "GET /health HTTP/1.0\r\n\r\n",
    "GET /health HTTP/9.9\r\n" + _HOST + "\r\n",
    "GET /health\r\n\r\n",
    "\r\n" * 1000,
    "\x16\x03\x01\x02\x00" * 50,
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + _HOST + "\r\n",
    "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n",
    "GET /health HTTP/1.1\nHost: {host}\n\n",
    "GET http://evil.example/health HTTP/1.1\r\n" + _HOST + "\r\n",
    "GET //evil.example/%2e%2e/ HTTP/1.1\r\n" + _HOST + "\r\n",
    "GET /%00%0d%0aX:y HTTP/1.1\r\n" + _HOST + "\r\n",
    "GET /\x1b[31m HTTP/1.1\r\n" + _HOST + "\r\n",
    "GET /" + "a" * 60_000 + " HTTP/1.1\r\n" + _HOST + "\r\n",
    "GET /" + "a" * 200_000 + " HTTP/1.1\r\n" + _HOST + "\r\n",
    "G" * 300_000,
    "CONNECT evil.example:443 HTTP/1.1\r\n" + _HOST + "\r\n",
    "TRACE /health HTTP/1.1\r\n" + _HOST + "\r\n",
    "BREW /health HTTP/1.1\r\n" + _HOST + "\r\n",
    "OPTIONS * HTTP/1.1\r\n" + _HOST + "\r\n",
    "OPTIONS /v1/completions HTTP/1.1\r\n"
    + _HOST
    + "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
    "Access-Control-Request-Private-Network: true\r\n\r\n",
    "GET /events HTTP/1.1\r\n"
    + _HOST
    + "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
    "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "GET /v1/models/ HTTP/1.1\r\n" + _HOST + "\r\n",
    "GET /health/ HTTP/1.1\r\n"
    + _HOST
    + "X-Forwarded-Host: evil.example\r\nX-Original-URL: /metrics\r\n\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + "".join(f"x-{i}: y\r\n" for i in range(5000)) + "\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + "x: " + "y" * 60_000 + "\r\n\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + "x: " + "y" * 5_000_000,
    "GET /health HTTP/1.1\r\n" + _HOST + "x : y\r\n\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + "x: a\r\n b\r\n\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + "x: a\x00b\r\n\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + "Authorization: Bearer \xff\xfe\r\n\r\n",
    "GET /health HTTP/1.1\r\n" + _HOST + ": empty\r\n\r\n",
    "GET /events HTTP/1.1\r\n" + _HOST + "Last-Event-ID: 99999999999999999999999\r\n\r\n",
    "GET /events HTTP/1.1\r\n" + _HOST + "Last-Event-ID: \xb2\r\n\r\n",
    "POST /generate HTTP/1.1\r\n" + _HOST + "Content-Length: -1\r\n\r\n",
    "POST /generate HTTP/1.1\r\n" + _HOST + "Content-Length: " + "9" * 40 + "\r\n\r\n",
    "POST /generate HTTP/1.1\r\n" + _HOST + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "POST /generate HTTP/1.1\r\n" + _HOST + "Content-Length: +2\r\n\r\n{}",
    "POST /generate HTTP/1.1\r\n"
    + _HOST
    + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n"
    + _HOST
    + "\r\n",
    "POST /generate HTTP/1.1\r\n" + _HOST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST /generate HTTP/1.1\r\n" + _HOST + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "POST /generate HTTP/1.1\r\n"
    + _HOST
    + "Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
    "POST /generate HTTP/1.1\r\n"
    + _HOST
    + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
    "POST /generate HTTP/1.1\r\n"
    + _HOST
    + "Transfer-Encoding: chunked\r\n\r\n2;"
    + "x" * 100_000
    + "\r\n{}\r\n0\r\n\r\n",
    "POST /generate HTTP/1.1\r\n"
    + _HOST
    + "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n",
    "POST /generate HTTP/1.1\r\n" + _HOST + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    ("GET /health HTTP/1.1\r\n" + _HOST + "\r\n") * 500,
    ("GET /nothing HTTP/1.1\r\n" + _HOST + "\r\n") * 300 + "rubbish",
    "POST /generate HTTP/1.1\r\n" + _HOST + "Content-Length: 2\r\n\r\n{}" * 200,
]
"""Bytes that are sent unchanged, in Latin-1; `{host}` is replaced by the server's address."""

VALID = [
    _completion(),
    _completion(stream=True, n=2, logprobs=3, stop=["a"], seed=1),
    json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}).encode(),
    json.dumps({"tokens": [60, 61]}).encode(),
    json.dumps({"prompt": [60, 61], "logit_bias": {"5": 1.5}, "max_tokens": 2}).encode(),
]


def mutated(number: int) -> bytes:
    """A valid body with bytes replaced, deleted or doubled, or bad ones added.

    The result depends only on `number`.
    """
    draw = random.Random(number)
    body = bytearray(draw.choice(VALID))
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(body) + 1)
        match draw.randrange(5):
            case 0:
                body[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                del body[at : at + draw.randint(1, 8)]
            case 2:
                body[at:at] = body[at : at + draw.randint(1, 20)]
            case 3:
                body[at:at] = draw.choice(
                    [
                        b"NaN",
                        b"1e999",
                        b"\\ud800",
                        b"\\u0000",
                        b"[" * 40,
                        b'"',
                        b"null",
                        b"-",
                        b"9" * 200,
                    ]
                )
            case _:
                body[at:at] = draw.choice(
                    [b"{", b"}", b",", b":", b"\x00", b"\xff", b"true", b'{"a":1}']
                )
    return bytes(body)
