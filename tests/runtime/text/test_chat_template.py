"""A chat template is untrusted code: whatever it does, it costs one request and bounded memory."""

import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minivllm.errors import InvalidRequestError
from minivllm.runtime.text import template_worker
from minivllm.runtime.text.chat_template import ChatTemplate

MESSAGES = [{"role": "user", "content": "Hi"}]
LOOPS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
HUNGRY = {
    "doubles a string": (
        "{% set ns = namespace(x='ab') %}" + "{% set ns.x = ns.x ~ ns.x %}" * 40 + "{{ ns.x }}"
    ),
    "ljust": "{{ 'a'.ljust(10 ** 9) | length }}",
    "powers": "{{ 9 ** (9 ** 9) }}",
    "loops": LOOPS,
    "deep macros": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "deep brackets": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
    "too long a text": "{{ 'x' * 5000000 }}",
}
"""Each exceeds its limit of time or memory."""


def our_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


@pytest.mark.parametrize("source", HUNGRY.values(), ids=HUNGRY.keys())
def test_a_template_over_its_limits_fails_its_request_and_costs_no_memory(source):
    before = our_peak_bytes()
    with pytest.raises(InvalidRequestError, match="chat template") as refused:
        ChatTemplate(source, {}, max_seconds=0.5).render(MESSAGES)
    assert len(str(refused.value)) < 400 and "\n" not in str(refused.value)
    assert our_peak_bytes() - before < 64 << 20


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('a secret of the template') }}",
        "{% include 'etc/passwd' %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__.os.system('id') }}",
        "{{ raise_exception.__globals__.json }}",
        "{{ self._TemplateReference__context.environment.extend(x=1) }}",
        "{{ (''|attr('__class__'))|attr('__mro__') + 1 }}",
        "{{ '{0.__class__.__mro__}'.format('') + 1 }}",
        "{{ messages.__setitem__(0, 1) }}",
    ],
)
def test_a_forbidden_template_operation_is_refused_without_details_for_clients(source):
    with pytest.raises(InvalidRequestError, match="does not accept these messages") as refused:
        ChatTemplate(source, {}).render(MESSAGES)
    assert "secret" not in str(refused.value)


def test_the_cause_of_the_error_is_the_templates_own_message():
    with pytest.raises(InvalidRequestError) as refused:
        ChatTemplate("{{ raise_exception('roles must alternate') }}", {}).render(MESSAGES)
    assert "roles must alternate" in str(refused.value.__cause__)


def test_other_conversations_are_rendered_while_one_takes_too_long_and_after():
    template = ChatTemplate(
        "{% if messages[0].content == 'slow' %}" + LOOPS + "{% endif %}{{ messages[0].content }}",
        {},
        max_seconds=0.5,
    )
    with ThreadPoolExecutor(1) as pool:
        ends = pool.submit(template.render, [{"role": "user", "content": "slow"}])
        rendered = 0
        while not ends.done():
            assert template.render([{"role": "user", "content": "quick"}]) == "quick"
            rendered += 1
    assert isinstance(ends.exception(), InvalidRequestError) and rendered > 10
    assert template.render([{"role": "user", "content": "after"}]) == "after"


def test_a_killed_worker_is_replaced():
    template = ChatTemplate("{{ messages[0].content }}", {})
    assert template.render(MESSAGES) == "Hi"
    process = template._idle[0]._process
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its pipe has no reader now
    with pytest.raises(InvalidRequestError):
        template.render(MESSAGES)
    assert process.returncode is not None
    assert template.render(MESSAGES) == "Hi"


def test_a_worker_ends_with_the_process_that_started_it(tmp_path):
    code = """
import os, sys
from minivllm.runtime.text.chat_template import ChatTemplate
template = ChatTemplate("x", {})
template.render([{"role": "user"}])
print(template._idle[0]._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    end = time.monotonic() + 10
    while (
        Path(f"/proc/{pid}").exists()
        and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]
    ):
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce this limit")
@pytest.mark.slow
def test_no_worker_exceeds_its_memory_limit() -> None:
    code = f"""
import resource
from minivllm.errors import InvalidRequestError
from minivllm.runtime.text.chat_template import ChatTemplate
for source in {list(HUNGRY.values())!r}:
    try:
        ChatTemplate(source, {{}}, max_seconds=0.5).render({MESSAGES!r})
    except InvalidRequestError:
        pass
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    largest = subprocess.run(
        [sys.executable, "-"], input=code, check=True, capture_output=True, text=True
    ).stdout
    assert int(largest) << 10 <= template_worker.MAX_BYTES
