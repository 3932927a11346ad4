"""How a lesson is written and given. Knows nothing of any one lesson.

Read `script` first: what a lesson is made of. `lesson_engine` is the real engine on a virtual
clock; `lesson_player` turns the pages.
"""
