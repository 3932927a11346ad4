"""Write files into the current folder (ctrl+s and E); each function returns a sentence."""

import time
from typing import TYPE_CHECKING

from minivllm.errors import EventLogError
from minivllm.events.recording.recording import Recording

if TYPE_CHECKING:
    from minivllm.tui.app import DashboardApp


def save_picture(app: "DashboardApp") -> str:
    name = f"minivllm-step-{app.model.fold.step}.svg"
    try:
        app.save_screenshot(name, path=".")
    except OSError as error:
        return f"{name} cannot be written: {error.strerror}."
    return f"Saved {name}."


def save_recording(recording: Recording) -> str:
    from minivllm.events.perfetto.export import export_perfetto
    from minivllm.events.recording.whole_file import whole_file

    name = f"minivllm-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        recording.save(f"{name}.jsonl")
        with whole_file(f"{name}.perfetto.json") as file:
            export_perfetto(f"{name}.jsonl", file)
    except OSError as error:
        return f"{error.filename} cannot be written: {error.strerror}."
    except EventLogError as error:
        return str(error)
    return f"Saved {name}.jsonl and {name}.perfetto.json (open it in ui.perfetto.dev)."
