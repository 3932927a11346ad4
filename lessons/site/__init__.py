"""Generates the site's pages about lessons and exercises.

    markdown          escapes lesson text for Markdown
    picks             per lesson: the pages to draw, links into the source
    pictures          draws a page of a lesson as the dashboard would
    plays             recordings of a lesson's engines, for the player
    lesson_page       one lesson: text, folded answers, pictures
    exercise_section  one exercise, folded
    topic_page        lesson, summary (docs/summaries) and exercises as one page
    indexes           the page of all topics and exercises
    teacher_pages     the course by week, and what students believe
    __main__          `python -m minivllm.lessons.site docs` writes everything

The pages must be the same on every machine. So lessons run on a virtual clock with greedy sampling
from float32 scores, and `lesson_page` always uses the same model, even if another one is cached.
"""
