"""`python -m minivllm.lessons.site docs`: writes the pages of all topics into docs/.

Deletes older pages that are no longer generated. `--only 3` writes only the page of lesson 3.
"""

import argparse
import sys
from pathlib import Path

from minivllm.errors import LessonError, MinivllmError
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.site.indexes import learn_index
from minivllm.lessons.site.teacher_pages import misconceptions_page, teach_index
from minivllm.lessons.site.topic_page import topic_page
from minivllm.lessons.teacher.script import Lesson

LEARN, TEACH = "learn", "teach"
PICTURES, RECORDINGS = "assets/lessons", "assets/recordings/lessons"
BY_HAND = ("glossary.md", "reading-list.md", "what-articles-say.md")
"""Pages in docs/learn that are not generated."""


def pages_of_lesson(lesson: Lesson) -> dict[str, str]:
    page = topic_page(lesson)
    return {
        f"{LEARN}/{page.name}": page.text,
        **{f"{PICTURES}/{file}": svg for file, svg in page.pictures.items()},
        **{f"{RECORDINGS}/{file}": text for file, text in page.recordings.items()},
    }


def other_pages() -> dict[str, str]:
    return {f"{LEARN}/index.md": learn_index(), f"{TEACH}/index.md": teach_index()}


def slow_pages() -> dict[str, str]:
    """Pages that need every lesson to be played."""
    return {f"{TEACH}/misconceptions.md": misconceptions_page()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m minivllm.lessons.site",
        description="Write the site's pages on lessons and exercises.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "folder", type=Path, metavar="DOCS", help="the folder docs/ of the repository"
    )
    parser.add_argument("--only", metavar="LESSON", help="only the page of this lesson")
    args = parser.parse_args(arguments)
    try:
        if not args.folder.is_dir():
            raise LessonError(f"{args.folder} is not a folder: give the docs/ of the repository.")
        _write(
            args.folder,
            [find_lesson(args.only)] if args.only else list(lessons()),
            all_of_it=args.only is None,
        )
    except MinivllmError as error:
        sys.exit(f"minivllm: {error}")


def _write(folder: Path, chosen: list[Lesson], *, all_of_it: bool) -> None:
    written = set()
    others = {**other_pages(), **slow_pages()} if all_of_it else {}
    made = (others, *map(pages_of_lesson, chosen))
    for pages in made:
        for name, content in pages.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
            written.add(path)
            print(path)
    if all_of_it:
        for path in _all_files(folder) - written:
            path.unlink()
            print(f"{path} is no longer generated: removed")


def _all_files(folder: Path) -> set[Path]:
    pages = {path for path in (folder / LEARN).glob("*.md") if path.name not in BY_HAND}
    return pages | {*(folder / PICTURES).glob("*.svg"), *(folder / RECORDINGS).glob("*.jsonl")}


if __name__ == "__main__":
    main()
