"""The site's pages on lessons and exercises, generated from them.

    markdown       lesson text, escaped for Markdown
    picks          per lesson: the moments to draw, links into the source
    pictures       draws a lesson's page as the dashboard would
    lesson_page    one lesson as a page
    exercise_page  one exercise as a page
    indexes        the two lists
    __main__       `python -m minivllm.lessons.site docs` writes everything

Pages must not differ between machines. So lessons run on a virtual clock with greedy sampling from
float32 scores, and `lesson_page` fixes the model, whatever is in the reader's cache.
"""
