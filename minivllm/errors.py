"""Every error that minivllm raises on purpose.

Each has its own type and a message that says what to change. An `InvalidRequestError` is raised
before anything is allocated, queued or emitted, so that a refused request leaves no trace.
"""


class MinivllmError(Exception):
    """Base of all errors raised by this package."""


# ---- invalid requests: the caller is at fault, the engine is unchanged ----


class InvalidRequestError(MinivllmError, ValueError):
    """A request that the engine refuses before it is queued."""


class EmptyPromptError(InvalidRequestError):
    """The prompt has no tokens, so there is nothing to predict from."""


class PromptTooLongError(InvalidRequestError):
    """The prompt leaves no room for even one output token under `max_model_len`."""


class RequestTooLargeError(InvalidRequestError):
    """The request would not fit in the KV cache even if it ran alone."""


class TokenOutOfVocabularyError(InvalidRequestError):
    """A token id from the caller is not in the model's vocabulary."""


class DuplicateRequestError(InvalidRequestError):
    """The request id is already in use by an unfinished request."""


class InvalidSamplingParamsError(InvalidRequestError):
    """A sampling parameter is out of range or contradicts another."""


# ---- configuration and model files ----


class ConfigError(MinivllmError, ValueError):
    """An engine option is out of range or contradicts another."""


class TritonMissingError(ConfigError):
    """Triton is not installed. minivllm installs it only on Linux on x86-64."""

    def __init__(self, what: str, instead: str = "") -> None:
        """what: the thing that needs Triton; instead: an alternative, as the end of a sentence"""
        import sysconfig  # slow and rarely needed

        on_linux = sysconfig.get_platform() == "linux-x86_64"
        install = (
            f"pip install '{TRITON}'"
            if on_linux
            else "it comes with minivllm on Linux on x86-64 only"
        )
        ways = install + (f", or {instead}" if instead else "")
        super().__init__(f"{what} needs Triton, which is not installed here: {ways}.")


TRITON = "triton>=3.6,<3.8"
"""The same as in pyproject.toml."""


class ModelError(MinivllmError):
    """The model's files cannot be found, trusted or read."""


class UnknownModelError(ModelError):
    """No alias, directory, file or Hub repository of that name could be found."""


class UnsupportedModelError(ModelError):
    """The model has an architecture or file format that minivllm does not support."""


class ModelIntegrityError(ModelError):
    """A downloaded or cached file is not the expected one (wrong hash, truncated, corrupt)."""


class ModelDownloadError(ModelError):
    """The model is known, but its files could not be downloaded (no network, no pip, refused)."""


class NotEnoughDiskSpaceError(ModelError):
    """The disk cannot hold the model's files."""


# ---- the engine itself ----


class EngineDeadError(MinivllmError, RuntimeError):
    """The engine failed in an earlier step and its state is unusable. Create a new engine."""


class StepInProgressError(MinivllmError, RuntimeError):
    """The operation is not possible between two phases of a step: finish the step first."""


class KernelTraceError(MinivllmError, RuntimeError):
    """The kernel x-ray could not be made; the engine continues."""


class RequestFailedError(MinivllmError, RuntimeError):
    """One request could not be finished; the engine continues with the others."""


class SamplingError(MinivllmError, RuntimeError):
    """A sequence has no token to sample: its logits are NaN, or its parameters mask all tokens."""

    def __init__(self, message: str, seq_id: str) -> None:
        super().__init__(message)
        self.seq_id = seq_id
        """The sequence; all others could have been sampled."""


class BlockPoolError(MinivllmError, RuntimeError):
    """The block pool was used incorrectly (a double free, an allocation past the end)."""


class InvariantError(MinivllmError, RuntimeError):
    """A rule that must hold after every step is broken: a bug in the engine, not in a request."""


class EventLogError(MinivllmError, ValueError):
    """A recording cannot be read: not minivllm's, of a newer version, or damaged."""


# ---- the server ----


class UnknownModelNameError(InvalidRequestError):
    """A request names a model that this server does not serve."""


class OverloadedError(MinivllmError, RuntimeError):
    """The waiting queue is full: try again later."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds."""


class ShuttingDownError(MinivllmError, RuntimeError):
    """The server is ending: it accepts no more requests, or gave this one up."""


class RequestTimeoutError(MinivllmError, TimeoutError):
    """A request did not finish within the server's time limit."""


class FeedLostError(MinivllmError, RuntimeError):
    """The server's metrics or events have missed an event. They would be wrong, so they end."""


# ---- dashboard, benchmarks, lessons ----


class TerminalError(MinivllmError, RuntimeError):
    """There is no terminal to draw the dashboard in."""


class BenchError(MinivllmError, RuntimeError):
    """A measurement would mislead: an engine, the peer or a recording did other work than asked."""


class SimulationError(MinivllmError, ValueError):
    """A simulation lacks valid input: step times, arrivals or requests cannot be read or served."""


class LessonError(MinivllmError, RuntimeError):
    """A lesson cannot run: it does not exist, or it claims what the engine does not show."""


class ExerciseError(MinivllmError, RuntimeError):
    """An exercise cannot be found, started or run. A wrong solution is not an error."""
