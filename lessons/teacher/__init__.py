"""Code to write and run lessons; it has no particular lesson.

Read `script` first, which has the parts of a lesson. `lesson_engine` is the real engine on a
virtual clock, and `lesson_player` goes from page to page.
"""
