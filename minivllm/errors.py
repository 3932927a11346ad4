"""Every error that minivllm raises on purpose.

Each error has its own type, and its message says what to change. An `InvalidRequestError` is raised
before anything is allocated, queued or emitted, so a refused request changes nothing.
"""

import os
import sys


class MinivllmError(Exception):
    """Base of all errors raised by this package."""


# ---- invalid requests: the caller is at fault, the engine is unchanged ----


class InvalidRequestError(MinivllmError, ValueError):
    """A request that the engine refuses before it is queued."""


class EmptyPromptError(InvalidRequestError):
    """The prompt has no tokens, so there is nothing to predict from."""


class PromptTooLongError(InvalidRequestError):
    """The prompt is so long that `max_model_len` leaves no room for an output token."""


class RequestTooLargeError(InvalidRequestError):
    """The request would not fit in the KV cache even if it ran alone."""


class TokenOutOfVocabularyError(InvalidRequestError):
    """A token id from the caller is not in the model's vocabulary."""


class DuplicateRequestError(InvalidRequestError):
    """The request id is already in use by an unfinished request."""


class InvalidSamplingParamsError(InvalidRequestError):
    """A sampling parameter is out of range or contradicts another parameter."""


# ---- configuration and model files ----


class ConfigError(MinivllmError, ValueError):
    """An engine option is out of range or contradicts another option."""


class TritonMissingError(ConfigError):
    """Triton is not installed. minivllm installs it only on Linux on x86-64."""

    def __init__(self, what: str, instead: str = "") -> None:
        """what: what needs Triton; instead: an alternative, as the end of a sentence"""
        install = "it comes with minivllm on Linux on x86-64 only"
        if (sys.platform, os.uname().machine) == ("linux", "x86_64"):
            install = f"pip install '{TRITON}'"
        ways = f"{install}, or {instead}" if instead else install
        super().__init__(f"{what} needs Triton, which is not installed here: {ways}.")


TRITON = "triton>=3.6,<3.8"
"""The same requirement as in pyproject.toml."""


class ModelError(MinivllmError):
    """The model's files cannot be found, trusted or read."""


class UnknownModelError(ModelError):
    """No alias, directory, file or Hub repository has the given name."""


class UnsupportedModelError(ModelError):
    """The model has an architecture or file format that minivllm does not support."""


class ModelIntegrityError(ModelError):
    """A downloaded or cached file has the wrong content (wrong hash, truncated, corrupt)."""


class ModelDownloadError(ModelError):
    """The model is known, but its files could not be downloaded (no network, no pip, refused)."""


# ---- the engine itself ----


class EngineDeadError(MinivllmError, RuntimeError):
    """The engine failed in an earlier step and cannot continue. Create a new engine."""


class StepInProgressError(MinivllmError, RuntimeError):
    """The operation is not possible between two phases of a step: finish the step first."""


class KernelTraceError(MinivllmError, RuntimeError):
    """The kernel x-ray could not be made; the engine continues."""


class RequestFailedError(MinivllmError, RuntimeError):
    """One request could not be finished; the engine continues with the others."""


class UnusableGrammarError(RequestFailedError):
    """The grammar of one request cannot be followed any more: the request has to change."""


class SamplingError(MinivllmError, RuntimeError):
    """A sequence has no token to sample: its logits are NaN, or its parameters mask all tokens."""

    def __init__(
        self, message: str, seq_id: str, error_type: type[RequestFailedError] = RequestFailedError
    ) -> None:
        super().__init__(message)
        self.seq_id = seq_id
        """The sequence without a token. The other sequences of the step are not affected."""
        self.error_type = error_type
        """What the sequence's request fails with."""


class BlockPoolError(MinivllmError, RuntimeError):
    """The block pool was used incorrectly (a double free, an allocation past the end)."""


class InvariantError(MinivllmError, RuntimeError):
    """A rule that must hold after every step is broken: a bug in the engine, not in a request."""


class EventLogError(MinivllmError, ValueError):
    """A recording cannot be read or written: wrong format, newer version, damaged, disk full."""


# ---- the server ----


class UnknownModelNameError(InvalidRequestError):
    """A request names a model that this server does not serve."""


class OverloadedError(MinivllmError, RuntimeError):
    """The waiting queue is full: try again later."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait before the next try."""


class ShuttingDownError(MinivllmError, RuntimeError):
    """The server is shutting down: it refused the request or could not finish it."""


class RequestTimeoutError(MinivllmError, TimeoutError):
    """A request did not finish within the server's time limit."""


class FeedLostError(MinivllmError, RuntimeError):
    """The server's metrics or event stream missed an event and ended: it would mislead."""


# ---- dashboard, benchmarks, lessons ----


class TerminalError(MinivllmError, RuntimeError):
    """There is no terminal to draw the dashboard in."""


class BenchError(MinivllmError, RuntimeError):
    """A measurement would mislead: an engine, the peer or a recording did not do the given work."""


class SimulationError(MinivllmError, ValueError):
    """A simulation cannot run: its step times, arrivals or requests cannot be read or served."""


class LessonError(MinivllmError, RuntimeError):
    """A lesson cannot run: it does not exist, or the engine does not do what its text says."""


class ExerciseError(MinivllmError, RuntimeError):
    """An exercise cannot be found, started or run. A wrong solution is not an error."""
