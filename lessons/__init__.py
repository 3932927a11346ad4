"""Lessons and exercises on the real engine, imported as `minivllm.lessons`.

course/      the lessons, one file each
teacher/     how to write and run a lesson: pages, questions, an engine on a virtual clock
scenarios/   workloads that show one idea each, as plain data
shown/       small, plain versions of what the engine does, and figures about kernels and GPUs
exercises/   one folder per exercise: files for the student, and its checks
checker/     runs a student's code in place of the engine's, and explains failures
site/        lessons and exercises as pages of the site
"""
