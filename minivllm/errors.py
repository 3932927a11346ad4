"""Every error that minivllm raises on purpose.

Each is typed, so a caller can tell them apart, and carries one sentence that says what to change.
The rule that is easy to get wrong: nothing may have been allocated, queued or emitted before one of
the `InvalidRequestError`s is raised, so that a refused request leaves no trace and the others go
on.
"""


class MinivllmError(Exception):
    """Base of all errors raised by this package."""


# ---- refused at the door: the caller's request is at fault, the engine is untouched ----


class InvalidRequestError(MinivllmError, ValueError):
    """A request that the engine refuses before queueing it."""


class EmptyPromptError(InvalidRequestError):
    """The prompt has no tokens, so there is nothing to predict from."""


class PromptTooLongError(InvalidRequestError):
    """The prompt leaves no room for even one output token under `max_model_len`."""


class RequestTooLargeError(InvalidRequestError):
    """The request's KV cache would not fit in the pool even if it had the pool to itself."""


class TokenOutOfVocabularyError(InvalidRequestError):
    """A token id given by the caller is not in the model's vocabulary."""


class DuplicateRequestError(InvalidRequestError):
    """The request id is already in use by an unfinished request."""


class InvalidSamplingParamsError(InvalidRequestError):
    """A sampling parameter is out of range or contradicts another."""


# ---- configuration and model files ----


class ConfigError(MinivllmError, ValueError):
    """An engine option is out of range or contradicts another."""


class TritonMissingError(ConfigError):
    """Triton, which runs and interprets GPU kernels, is not installed: minivllm installs it on
    Linux on x86-64 only.
    """

    def __init__(self, what: str, instead: str = "") -> None:
        """what: needs Triton; instead: another way, as the end of a sentence"""
        import sysconfig  # slow, and seldom needed

        on_linux = sysconfig.get_platform() == "linux-x86_64"
        install = (
            f"pip install '{TRITON}'"
            if on_linux
            else "it comes with minivllm on Linux on x86-64 only"
        )
        ways = install + (f", or {instead}" if instead else "")
        super().__init__(f"{what} needs Triton, which is not installed here: {ways}.")


TRITON = "triton>=3.6,<3.8"
"""As pyproject.toml says it."""


class ModelError(MinivllmError):
    """The model's files cannot be found, trusted or read."""


class UnknownModelError(ModelError):
    """No alias, directory, file or Hub repository of that name could be found."""


class UnsupportedModelError(ModelError):
    """The files are a model, but of an architecture or file format that we do not run."""


class ModelIntegrityError(ModelError):
    """A downloaded or cached file is not the one we asked for (wrong hash, truncated, corrupt)."""


class ModelDownloadError(ModelError):
    """The model is known but its files could not be fetched (no network, no pip, a refused
    connection).
    """


class NotEnoughDiskSpaceError(ModelError):
    """The disk cannot hold the model's files."""


# ---- the engine itself ----


class EngineDeadError(MinivllmError, RuntimeError):
    """The engine failed in an earlier step; its state can no longer be trusted. Make a new one."""


class StepInProgressError(MinivllmError, RuntimeError):
    """What was asked for cannot be done between two phases of a step: finish the step first."""


class KernelTraceError(MinivllmError, RuntimeError):
    """The kernel x-ray could not be made; the engine itself goes on."""


class RequestFailedError(MinivllmError, RuntimeError):
    """One request could not be finished; the engine goes on with the others."""


class SamplingError(MinivllmError, RuntimeError):
    """One sequence has no token to sample: its logits are no numbers, or its parameters mask them
    all.
    """

    def __init__(self, message: str, seq_id: str) -> None:
        super().__init__(message)
        self.seq_id = seq_id
        """Which sequence; the others could have been sampled."""


class BlockPoolError(MinivllmError, RuntimeError):
    """The block pool was used against its contract (a double free, an allocation past the end)."""


class InvariantError(MinivllmError, RuntimeError):
    """A rule that must hold after every step does not: a bug in the engine, never in a request."""


class EventLogError(MinivllmError, ValueError):
    """A recording cannot be read: not ours, newer than we know, or damaged before its end."""


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
    """The server takes no more requests, or gave this one up because it has to end."""


class RequestTimeoutError(MinivllmError, TimeoutError):
    """A request was not finished within the time that the server gives one."""


class FeedLostError(MinivllmError, RuntimeError):
    """Metrics or events of a running server have lost an event, and are told no more: they would
    not be true.
    """


# ---- what people look at ----


class TerminalError(MinivllmError, RuntimeError):
    """A dashboard was asked for where there is no terminal to draw it in."""


class BenchError(MinivllmError, RuntimeError):
    """A measurement that would not mean what it says: an engine, the peer or a recording did other
    work than asked.
    """


class SimulationError(MinivllmError, ValueError):
    """A simulation has nothing to go by: step times, arrivals or requests that cannot be read or
    cannot be served.
    """


class LessonError(MinivllmError, RuntimeError):
    """A lesson cannot be given as asked for: there is none of that name, or it claims what the
    engine does not show.
    """


class ExerciseError(MinivllmError, RuntimeError):
    """An exercise cannot be found, started or run; a wrong solution is no error."""
