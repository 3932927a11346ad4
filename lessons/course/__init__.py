"""The course: a lesson a file, in teaching order.

`library` finds them by number or name; `course` is the table of concepts, lessons, exercises and
panels. Read `l04_blocks` first.
"""
