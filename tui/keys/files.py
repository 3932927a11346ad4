"""Write files into the current folder (ctrl+s, E and q); each function returns a sentence."""

import time

from textual.app import App

from minivllm.errors import EventLogError
from minivllm.events.recording.recording import Recording
from minivllm.events.recording.whole_file import whole_file


def save_picture(app: App, step: int) -> str:
    name = f"minivllm-step-{step}.svg"
    try:
        app.save_screenshot(name, path=".")
    except OSError as error:
        return f"{name} cannot be written: {error.strerror}."
    return f"Saved {name}."


def save_recording(recording: Recording) -> str:
    """Raise `EventLogError` if the recording cannot be read, or its file cannot be written."""
    name = f"minivllm-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        recording.save(f"{name}.jsonl")
        with whole_file(f"{name}.perfetto.json") as file:
            # late: a dashboard that exports nothing starts 15 ms earlier
            from minivllm.events.perfetto import export_perfetto

            export_perfetto(f"{name}.jsonl", file)
    except OSError as error:
        raise EventLogError(f"{error.filename} cannot be written: {error.strerror}.") from error
    return f"Saved {name}.jsonl and {name}.perfetto.json (open it in ui.perfetto.dev)."
