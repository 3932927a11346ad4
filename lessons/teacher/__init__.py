"""How to write and run a lesson, independent of any particular lesson.

Read `script` first: the parts of a lesson. `lesson_engine` is the real engine on a virtual clock;
`lesson_player` turns the pages.
"""
