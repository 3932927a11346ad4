"""Lessons and exercises on the real engine; the import path is `minivllm.lessons`.

course/      the lessons, a file each
teacher/     how a lesson is written and given: pages, questions, an engine on a virtual clock
scenarios/   workloads that show one idea each, as plain data
shown/       figures that lessons show of kernels and GPUs
exercises/   a folder an exercise: what the student gets, and what is checked
checker/     runs students' code in the engine's place, and says what is wrong with it
site/        lessons and exercises as pages of the site
"""
