"""`RecordingScheduler`: the class to name in `--scheduler-cls`.

Its options are environment variables, which vLLM hands on to its engine process: see
docs/use/real-vllm.md. If something does not suit it, vLLM runs on without a recording.
"""

import logging
import os
import time
from typing import Any, Self

import vllm
from vllm.tokenizers import cached_tokenizer_from_config
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from minivllm.errors import EventLogError
from minivllm.events.types import LogHeader
from minivllm.version import __version__
from minivllm.vllm.tap import Tap
from minivllm.vllm.texts import Texts
from minivllm.vllm.verify import Verifier
from minivllm.vllm.writer import Writer

_log = logging.getLogger("vllm.minivllm")
_TESTED = "0.32", "0.33"


def _option(name: str) -> str:
    """The value of the variable MINIVLLM_RECORD + name; empty if it is 0 or not set."""
    value = os.environ.get(f"MINIVLLM_RECORD{name}", "")
    return "" if value == "0" else value


class RecordingScheduler(Scheduler):
    """vLLM's scheduler, synchronous or asynchronous as vLLM's own setting says."""

    tap: Tap | None = None

    def __new__(cls, vllm_config: Any, *args: Any, **kwargs: Any) -> Self:
        is_async = vllm_config.scheduler_config.async_scheduling
        return super().__new__(_RecordingAsyncScheduler if is_async else cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        try:
            if problem := _problem(self):
                raise EventLogError(problem)
            self.tap = _connected(self)
        except Exception as error:
            _log.warning("minivllm does not record: %s", error)


class _RecordingAsyncScheduler(RecordingScheduler, AsyncScheduler):
    pass


def _problem(scheduler: Scheduler) -> str | None:
    """What the recorder cannot do."""
    if not _option(""):
        return "set the environment variable MINIVLLM_RECORD=FILE"
    if not (_option("_LIMIT") or "0").isdecimal():
        return "MINIVLLM_RECORD_LIMIT is not a whole number of MiB"
    if ".".join(vllm.__version__.split(".")[:2]) not in _TESTED and not _option("_ANY_VERSION"):
        tested = f"it is tested with vLLM {' and '.join(_TESTED)}, and this is {vllm.__version__}"
        return f"{tested}; MINIVLLM_RECORD_ANY_VERSION=1 with MINIVLLM_RECORD_VERIFY=1 tries it"
    model, is_async = scheduler.vllm_config.model_config, isinstance(scheduler, AsyncScheduler)
    has = {
        "several groups of KV cache layers": len(scheduler.kv_cache_config.kv_cache_groups) > 1,
        "a KV connector": scheduler.connector is not None,
        "pipeline parallelism": scheduler.parallel_config.pipeline_parallel_size > 1,
        "an encoder": model.is_encoder_decoder or model.is_multimodal_model,
        "drafts, and no --no-async-scheduling": is_async and scheduler.num_spec_tokens > 0,
    }
    what = next((what for what, is_there in has.items() if is_there), None)
    return what and f"this vLLM has {what}, for which minivllm has no events"


def _connected(scheduler: Scheduler) -> Tap:
    rank = scheduler.parallel_config.data_parallel_rank
    path = _option("") + (f".dp{rank}" if rank else "")
    without_text = bool(_option("_WITHOUT_TEXT"))
    model = scheduler.vllm_config.model_config
    texts = Texts(None if without_text else cached_tokenizer_from_config(model))
    facts = path, _header(scheduler), texts, (int(_option("_LIMIT") or 0) << 20) // 2
    writer = Verifier(scheduler, not without_text, *facts) if _option("_VERIFY") else Writer(*facts)
    tap = Tap(scheduler, writer, without_text=without_text)
    writer.start(tap.fail)
    _log.info("minivllm records the scheduler's decisions in %s", path)
    return tap


def _header(scheduler: Scheduler) -> LogHeader:
    manager, group = scheduler.kv_cache_manager, scheduler.kv_cache_config.kv_cache_groups[0]
    model = scheduler.vllm_config.model_config.served_model_name.rstrip("/").rpartition("/")[2]
    return LogHeader(
        version=2, engine=__version__, source=f"vLLM {vllm.__version__}", model=model,
        clock="monotonic", wall=time.time(), mono=time.monotonic(), reserved_blocks=1,
        num_blocks=manager.block_pool.num_gpu_blocks, block_size=scheduler.block_size,
        max_num_seqs=scheduler.max_num_running_reqs, max_model_len=scheduler.max_model_len,
        max_num_batched_tokens=scheduler.max_num_scheduled_tokens,
        scheduling_policy=scheduler.policy.value, enable_prefix_caching=manager.enable_caching,
        config={"async_scheduling": isinstance(scheduler, AsyncScheduler),
                "enable_chunked_prefill": scheduler.scheduler_config.enable_chunked_prefill},
        block_bytes=group.kv_cache_spec.page_size_bytes * len(group.layer_names),
    )  # fmt: skip
