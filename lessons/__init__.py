"""Lessons on the real engine, and workloads that show one idea each.

    script         what a lesson is made of, and the `Teacher` with which it is written
    lesson_engine  the engine of a lesson: virtual clock, events folded beside it
    l01_ ... l13_  the lessons; `library` finds them
    lesson_player  gives a lesson page by page; `progress` keeps first answers
    words, plain, transcript  a lesson without the dashboard
    site           lessons and exercises as pages of the site

    scenarios   who asks what and when, as plain data
    player      sends a scenario's requests at their steps
    facts       what came of a run, counted from its events
    stories     the same in three sentences

They know requests, options and events, and nothing of how the engine schedules: what is seen on the
screen is the engine's own doing. The easy thing to get wrong is the name: this folder stands at the
top of the repository and is imported as `minivllm.lessons`, never as `lessons`.
"""
