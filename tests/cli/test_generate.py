"""`minivllm generate` and `minivllm chat` on the tiny random model."""

import io
import json
import re
import sys
from math import exp

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm import LLM, SamplingParams
from minivllm.cli import main
from minivllm.cli.serving.chat import WrappedText

TINY = ["--model", "tiny-random", "--num-gpu-blocks-override", "256", "--dtype", "float32"]


@pytest.fixture(scope="module")
def llm() -> LLM:
    """The same model through the Python API."""
    return LLM("tiny-random", num_gpu_blocks_override=256, dtype="float32")


def texts(llm: LLM, prompts: list[str], max_tokens: int) -> list[str]:
    outputs = llm.generate(
        prompts, SamplingParams(temperature=0, max_tokens=max_tokens), use_tqdm=False
    )
    return [output.outputs[0].text for output in outputs]


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def printed(texts: list[str]) -> str:
    """Numbered texts, with continuation lines indented."""
    shown = (text.strip("\n").replace("\n", "\n    ") for text in texts)
    return "".join(f"[{number}] {text}\n" for number, text in enumerate(shown, start=1))


def test_many_prompts_are_answered_together_and_printed_in_their_order(llm, capsys):
    prompts = ["Hello", "What", "One two three"]
    assert main(["generate", *prompts, *TINY, "--max-tokens", "24"]) == 0
    assert capsys.readouterr().out == printed(texts(llm, prompts, 24))


def test_logprobs_show_each_token_with_its_rank_and_others(llm, capsys):
    command = ["generate", "Hello", *TINY, "--max-tokens", "6", "--logprobs", "2"]
    assert main([*command, "-n", "2"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "rank" in line]
    assert len(lines) == 12 and all("others: " in line for line in lines)
    assert main(command) == 0
    shown = re.findall(r"([\d.]+)%  rank 1 ", capsys.readouterr().out)
    params = SamplingParams(temperature=0, max_tokens=6, logprobs=2)
    (output,) = llm.generate(["Hello"], params, use_tqdm=False)
    best = [max(entry.logprob for entry in each.values()) for each in output.outputs[0].logprobs]
    assert [float(text) for text in shown] == [
        pytest.approx(100 * exp(logprob), abs=0.1) for logprob in best
    ]


def test_beams_give_all_texts_best_first_or_as_many_as_are_asked_for(llm, capsys):
    (expected,) = llm.beam_search("Hello", beam_width=4, max_tokens=12)
    best = [output.text for output in expected.outputs]
    arguments = ["generate", "Hello", *TINY, "--max-tokens", "12", "--beam-width", "4"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines(keepends=True)
    scores = [line for line in lines if line.startswith("    score ")]
    assert "".join(line for line in lines if line not in scores) == printed(best)
    assert [float(line.split()[1].strip(":")) for line in scores] == [
        round(beam.cumulative_logprob / len(beam.token_ids), 3) for beam in expected.outputs
    ]
    assert main([*arguments, "-n", "2", "--length-penalty", "1.0", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    found = [(output["index"], output["text"]) for output in result["outputs"]]
    assert found == list(enumerate(best[:2]))
    lengths = [len(output.token_ids) for output in expected.outputs[:2]]
    assert result["generated_tokens"] == sum(lengths)


def test_prompts_come_from_a_file_or_standard_input_one_a_line(llm, capsys, monkeypatch, tmp_path):
    (tmp_path / "prompts.txt").write_text("Hello\n\nWhat is über?\n", encoding="utf-8")
    options = [*TINY, "--max-tokens", "5", "--json"]
    assert main(["generate", "--file", str(tmp_path / "prompts.txt"), *options]) == 0
    from_file = json.loads(capsys.readouterr().out)["outputs"]
    for arguments in ([], ["--file", "-"]):
        stdin(monkeypatch, "Hello\n\nWhat is über?\n".encode())
        assert main(["generate", *arguments, *options]) == 0
        assert json.loads(capsys.readouterr().out)["outputs"] == from_file
    assert [output["prompt"] for output in from_file] == ["Hello", "What is über?"]
    assert [output["text"] for output in from_file] == texts(llm, ["Hello", "What is über?"], 5)
    assert {output["finish_reason"] for output in from_file} == {"length"}


def test_a_prompt_that_is_refused_does_not_stop_the_others(llm, capsys):
    prompts = ["Hello", "x" * 100, "What"]
    assert main(["generate", *prompts, *TINY, "--max-model-len", "64", "--max-tokens", "6"]) == 1
    captured = capsys.readouterr()
    first, third = texts(llm, ["Hello", "What"], 6)
    assert captured.out == f"[1] {first}\n[3] {third}\n"
    refused = "minivllm: Request '1' has 100 prompt tokens, but max_model_len is 64"
    assert f"\n{refused}" in f"\n{captured.err}"
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("prompts", "status"),
    [([""], 1), (["\udc80"], 1), ([], 2)],
    ids=["empty", "no Unicode", "none"],
)
def test_without_a_usable_prompt_it_ends_with_one_sentence(prompts, status, capsys, monkeypatch):
    stdin(monkeypatch, b"\n")
    assert main(["generate", *prompts, *TINY]) == status
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1].startswith("minivllm") and "Traceback" not in captured.err
    assert captured.out == ""


def test_the_output_has_the_form_that_is_asked_for(tmp_path, capsys):
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "array", "items": {"type": "boolean"}, "maxItems": 2}')
    choice = ["--choice", "é", "--choice", "x"]
    forms, answers = [["--json-schema", str(schema)], ["--regex", "[0-9]{2}"], choice], []
    for form in forms:
        assert main(["generate", "Hello", *TINY, *form]) == 0
        answers.append(capsys.readouterr().out.strip())
    assert all(item in (True, False) for item in json.loads(answers[0])) and "  " not in answers[0]
    assert re.fullmatch("[0-9]{2}", answers[1]) and answers[2] in ("é", "x")
    assert main(["generate", "Hello", *TINY, "--regex", "[0-9"]) == 1
    assert "--regex is not valid (unclosed character class)" in capsys.readouterr().err
    assert main(["generate", "Hello", *TINY, "--regex", "[0-9]{9}", "--max-tokens", "1"]) == 0
    assert "--max-tokens 1 ended an incomplete output" in capsys.readouterr().err


# ---- chat ----


def test_chat_applies_the_models_template(llm, capsys):
    assert main(["generate", "--chat", "Hello", *TINY, "--max-tokens", "8", "--json"]) == 0
    (output,) = json.loads(capsys.readouterr().out)["outputs"]
    message = {"role": "user", "content": "Hello"}
    (expected,) = llm.chat([message], SamplingParams(temperature=0, max_tokens=8))
    assert output["token_ids"] == expected.outputs[0].token_ids
    assert output["prompt"] == "Hello"


def test_an_answer_in_a_chat_breaks_lines_at_spaces(capsys):
    words = WrappedText(12)
    for piece in ("The act", "ivity ends", " while\n  it rains", " in", " 長い名前の", "町です"):
        words.show(piece)
    words.show("\n", is_end=True)
    assert capsys.readouterr().out == "The activity\nends while\n  it rains\nin\n長い名前の町です\n"


def test_each_turn_of_a_chat_finds_the_turns_before_in_the_cache(capsys, monkeypatch):
    hello = b"Hello there, how are you?\n"
    stdin(monkeypatch, hello + b"And what else can you say?\n/reset\n" + hello)
    assert main(["chat", *TINY, "--max-tokens", "20", "--system", "Be brief."]) == 0
    found = re.findall(r"; (\d+) of (\d+) prompt tokens were cached", capsys.readouterr().err)
    first, first_total, second, second_total, third, third_total = map(int, sum(found, ()))
    assert first == 0
    assert second >= first_total // 16 * 16 - 16 > 0
    assert second_total > first_total
    assert (third, third_total) == (first_total // 16 * 16, first_total)
