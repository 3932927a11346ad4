"""`make conformance`: runs other projects' clients of OpenAI's API against `minivllm serve`.

    lm-eval     log-likelihoods of a small task; they must equal the log-likelihoods of
                transformers for the same checkpoint
    openai      structured outputs: a pydantic class, a schema, a stream, an error
    instructor  structured outputs: a pydantic class, a list of objects
    litellm     chat, streams, texts, a schema, errors
    guidellm    a benchmark under load, in which no request fails
    tools       tool calls, with OpenAI's client and pydantic-ai

Each client has its own environment, because the clients' packages conflict. A client may report
success although its requests failed, so this script reads the client's output files and counts.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from minivllm.runtime.store.model_store import resolve_for_transformers

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "load"))

from server_process import serve  # noqa: E402  (in the neighbouring folder `load`)

TOLERANCE = 1e-3
"""Tolerance for a sum of log-probabilities over a few tokens, both computed in float32."""
NUM_REQUESTS = 16
SCRIPTS = {
    "openai": "parse, json_schema, stream equal to whole, BadRequestError",
    "instructor": "an object, a list of objects",
    "litellm": "chat, stream equal to whole, logprobs, n texts, json_schema, BadRequestError",
    "tools": "the tool loop, stream equal to whole, parsed arguments, pydantic-ai's outputs",
}
"""The clients that are a file here, and what each checks."""


class NotConformantError(Exception):
    """A client's check has failed."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--environments", type=Path, required=True, help="the folder with the clients' environments"
    )
    parser.add_argument("--model", default="smollm2", help="default: %(default)s")
    args = parser.parse_args()
    checkpoint = str(resolve_for_transformers(args.model))
    clients: dict[str, Callable[..., str]] = {"lm-eval": _lm_eval, "guidellm": _guidellm}
    clients |= {name: partial(_script, name, shown) for name, shown in SCRIPTS.items()}
    failed = 0
    with serve("--model", args.model, "--dtype", "float32") as server:
        for name, run in clients.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    shown, passed = run(args, server.url, checkpoint, Path(folder)), True
                except NotConformantError as error:
                    shown, passed = str(error), False
            failed += not passed
            print(f"{'pass' if passed else 'FAIL'}  {name:<10} {shown}", flush=True)
    return 1 if failed else 0


def _run(*command: object) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=900
    )
    if done.returncode != 0:
        raise NotConformantError(
            f"exit status {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}"
        )
    return done.stdout


def _lm_eval(args: argparse.Namespace, url: str, checkpoint: str, folder: Path) -> str:
    task = (HERE / "task" / "minivllm_words.yaml").read_text()
    questions = HERE / "task" / "questions.jsonl"
    (folder / "minivllm_words.yaml").write_text(task.replace("QUESTIONS", str(questions)))
    served = (
        f"base_url={url}/v1/completions,model={args.model},tokenizer={checkpoint},"
        "tokenizer_backend=huggingface"
    )
    _run(
        args.environments / "lm-eval" / "bin" / "lm_eval", "--model", "local-completions",
        "--model_args", f"{served},num_concurrent=4,max_retries=1,max_length=1024",
        "--tasks", "minivllm_words", "--include_path", folder,
        "--output_path", folder / "out", "--log_samples",
    )  # fmt: skip
    (samples,) = (folder / "out").rglob("samples_*.jsonl")
    scored = [json.loads(line) for line in samples.read_text().splitlines()]
    pairs, scores = [], []
    for sample in scored:
        for number, response in enumerate(sample["filtered_resps"]):
            arguments = sample["arguments"][f"gen_args_{number}"]
            pairs.append((arguments["arg_0"], arguments["arg_1"]))
            scores.append((float(response[0]), str(response[1]) == "True"))
    expected = _by_transformers(checkpoint, pairs)
    asked = map(json.loads, questions.read_text().splitlines())
    if len(pairs) != sum(len(question["choices"]) for question in asked):
        raise NotConformantError(
            f"{len(pairs)} continuations were scored, which is not all of them"
        )
    worst = max(abs(score - true) for (score, _), (true, _) in zip(scores, expected, strict=True))
    if not worst <= TOLERANCE:
        raise NotConformantError(
            f"a log-likelihood differs from that of transformers by {worst:.2g}"
        )
    if [greedy for _, greedy in scores] != [greedy for _, greedy in expected]:
        raise NotConformantError(
            "the server and transformers disagree about which continuations are greedy"
        )
    return (
        f"{len(pairs)} log-likelihoods equal transformers' within {worst:.1e}, and so do all greedy"
        " flags"
    )


def _by_transformers(checkpoint: str, pairs: list[tuple[str, str]]) -> list[tuple[float, bool]]:
    """Compute each continuation's log-likelihood after its context, and whether it is greedy."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    found = []
    for context, continuation in pairs:
        whole = tokenizer(context + continuation).input_ids
        begin = len(tokenizer(context).input_ids)
        with torch.inference_mode():
            rows = model(torch.tensor([whole])).logits[0, begin - 1 : -1].double().log_softmax(-1)
        targets = torch.tensor(whole[begin:])
        is_greedy = bool((rows.argmax(-1) == targets).all())
        found.append((rows[range(len(targets)), targets].sum().item(), is_greedy))
    return found


def _script(
    name: str, shown: str, args: argparse.Namespace, url: str, checkpoint: str, folder: Path
) -> str:
    """Run `NAME_client.py`, which ends with an error if something is wrong."""
    python = args.environments / name / "bin" / "python"
    _run(python, HERE / f"{name}_client.py", url, args.model)
    return shown


def _guidellm(args: argparse.Namespace, url: str, checkpoint: str, folder: Path) -> str:
    report = folder / "report.json"
    _run(
        args.environments / "guidellm" / "bin" / "guidellm", "run", "--disable-console",
        "--backend", f"kind=openai_http,target={url},model={args.model}",
        "--profile", "kind=concurrent,streams=4",
        "--constraint", f"kind=max_requests,count={NUM_REQUESTS}",
        "--tokenizer", f"kind=huggingface_auto,model={checkpoint}",
        "--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=16",
        "--output", f"kind=json,path={report}",
    )  # fmt: skip
    (benchmark,) = json.loads(report.read_text())["benchmarks"]
    totals = benchmark["metrics"]["request_totals"]
    if totals["successful"] != NUM_REQUESTS or totals["errored"]:
        raise NotConformantError(f"of {NUM_REQUESTS} requests: {totals}")
    rate = benchmark["metrics"]["output_tokens_per_second"]["successful"]["mean"]
    if not math.isfinite(rate) or rate <= 0:
        raise NotConformantError(f"it measured {rate} tokens a second")
    return f"{NUM_REQUESTS} requests from 4 streams, none failed"


if __name__ == "__main__":
    sys.exit(main())
