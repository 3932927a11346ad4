"""The course: thirteen lessons, a file each, in the order in which they are taught.

`library` finds them by number or name; `course` is the table of concepts, lessons, exercises and
screens. Read `l04_blocks` first.
"""
