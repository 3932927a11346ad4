"""`RecordingScheduler`: the class to name in `--scheduler-cls`.

Options are environment variables, which vLLM hands on to its engine process:

    MINIVLLM_RECORD=FILE              data-parallel engine N above 0 writes to FILE.dpN
    MINIVLLM_RECORD_LIMIT=MIB         keep at most this much: FILE, and FILE.1 with what was before
    MINIVLLM_RECORD_WITHOUT_TEXT=1    write no texts and no token ids
    MINIVLLM_RECORD_VERIFY=1          compare the events with vLLM after every call; slow
    MINIVLLM_RECORD_ANY_VERSION=1     try a version of vLLM that was not tested

If something does not suit the recorder, vLLM runs on without a recording, and its log says why.
"""

import logging
import os
import time
from typing import Any, Self

import vllm
from vllm.tokenizers import cached_tokenizer_from_config
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import RequestStatus

from minivllm.errors import EventLogError
from minivllm.events.types import LogHeader
from minivllm.version import __version__
from minivllm.vllm.tap import Tap
from minivllm.vllm.texts import Texts
from minivllm.vllm.verify import Verifier
from minivllm.vllm.writer import Writer

_log = logging.getLogger("vllm.minivllm")
_TESTED = ("0.32", "0.33")


def _option(name: str) -> str:
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
    if vllm.__version__.rpartition(".")[0] not in _TESTED and not _option("_ANY_VERSION"):
        tested = f"it is tested with vLLM {' and '.join(_TESTED)}, and this is {vllm.__version__}"
        return f"{tested}; MINIVLLM_RECORD_ANY_VERSION=1 with MINIVLLM_RECORD_VERIFY=1 tries it"
    config, is_async = scheduler.vllm_config, isinstance(scheduler, AsyncScheduler)
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    has = {
        "several groups of KV cache layers": len(managers) > 1,
        "a KV connector": scheduler.connector is not None,
        "pipeline parallelism": config.parallel_config.pipeline_parallel_size > 1,
        "an encoder": config.model_config.is_encoder_decoder,
        "a multimodal model": config.model_config.is_multimodal_model,
        "drafts, and no --no-async-scheduling": is_async and scheduler.num_spec_tokens > 0,
    }
    what = next((what for what, is_there in has.items() if is_there), None)
    return what and f"this vLLM has {what}, for which minivllm has no events"


def _connected(scheduler: Scheduler) -> Tap:
    rank, verify = scheduler.parallel_config.data_parallel_rank, bool(_option("_VERIFY"))
    path = _option("") + (f".dp{rank}" if rank else "")
    without_text = bool(_option("_WITHOUT_TEXT"))
    tokenizer = cached_tokenizer_from_config(scheduler.vllm_config.model_config)
    if tokenizer is None or without_text:
        texts = Texts(lambda token_ids: "", 0, ())
    else:
        start = tokenizer.encode("a", add_special_tokens=False)[-1]
        texts = Texts(tokenizer.decode, start, tokenizer.all_special_ids)
    limit = (int(_option("_LIMIT") or 0) << 20) // 2
    writer = Writer(path, _header(scheduler), texts, limit, with_fold=verify)
    tap = Tap(scheduler, RequestStatus, without_text=without_text)
    if verify:
        verifier = Verifier(scheduler, writer.fold, with_tokens=not without_text)
        tap.connect(writer.take, writer.close, verifier.check)
        tap.verifier = verifier
    else:
        writer.start(tap.fail)
        tap.connect(writer.put, writer.close)
    _log.info("minivllm records the scheduler's decisions in %s", path)
    return tap


def _header(scheduler: Scheduler) -> LogHeader:
    config, manager = scheduler.vllm_config, scheduler.kv_cache_manager
    group = scheduler.kv_cache_config.kv_cache_groups[0]
    return LogHeader(
        version=2,
        engine=__version__,
        source=f"vLLM {vllm.__version__}",
        model=config.model_config.model.rstrip("/").rpartition("/")[2],
        clock="monotonic",
        wall=time.time(),
        mono=time.monotonic(),
        num_blocks=manager.block_pool.num_gpu_blocks,
        reserved_blocks=1,
        block_size=scheduler.block_size,
        max_num_seqs=scheduler.max_num_running_reqs,
        max_num_batched_tokens=scheduler.max_num_scheduled_tokens,
        max_model_len=scheduler.max_model_len,
        scheduling_policy=scheduler.policy.value,
        enable_prefix_caching=manager.enable_caching,
        config={"async_scheduling": isinstance(scheduler, AsyncScheduler)},
        block_bytes=group.kv_cache_spec.page_size_bytes * len(group.layer_names),
    )
