"""Generates the site's pages about lessons and exercises.

    markdown       escapes lesson text for Markdown
    picks          per lesson: the pages to draw, links into the source
    pictures       draws a page of a lesson as the dashboard would
    lesson_page    one lesson as a page
    exercise_page  one exercise as a page
    indexes        the two lists
    __main__       `python -m minivllm.lessons.site docs` writes everything

The pages must be the same on every machine. So lessons run on a virtual clock with greedy sampling
from float32 scores, and `lesson_page` always uses the same model, even if another one is cached.
"""
