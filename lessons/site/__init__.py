"""The site's pages on lessons and exercises, made from the lessons and exercises themselves.

    markdown       words of a lesson, safe to stand in Markdown
    picks          what a page has beside the lesson's words: which moments are drawn, links into
                   the source
    pictures       draws a lesson's page as the dashboard would
    lesson_page    one lesson as a page
    exercise_page  one exercise as a page
    indexes        the two lists
    __main__       `python -m minivllm.lessons.site docs` writes all of it

The easy thing to get wrong is what differs from one machine to the next. Lessons run on a clock of
their own and take the greediest token of float32 scores; each has one model here, named in
`lesson_page`, whatever is in the reader's cache.
"""
