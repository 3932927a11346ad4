"""The dashboard: a terminal view of one engine, drawn from its events alone; the import path is
`minivllm.tui`.

`app.DashboardApp` is the program. Nothing here imports torch or reads the engine: what is on the
screen is a fold of the event stream.

    sources/   where events come from: this process, a server, a file
    state/     what a picture is drawn from, folded from events
    time/      where in a recording the dashboard is
    answers/   why, what changed, and the source of a decision
    draw/      from styled text to cells
    widgets/   the panels, by subject; screens/ puts them together
    keys/      the table of commands, and what each key does
    vllm/      the screen for a real vLLM
"""
