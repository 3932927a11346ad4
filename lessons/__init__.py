"""Lessons and exercises on the real engine, imported as `minivllm.lessons`.

The names below are imported on first use (`lessons.first_matrix`): what they need is slow to import
or may be missing.

course/      the lessons, one file each
teacher/     how to write and run a lesson: pages, questions, an engine on a virtual clock
scenarios/   workloads that show one idea each, as plain data
shown/       small, plain versions of what the engine does, and figures about kernels and GPUs
exercises/   one folder per exercise: files for the student, and its checks
checker/     runs a student's code in place of the engine's, and explains failures
site/        lessons and exercises as pages of the site
"""

from minivllm import lazy_names

__getattr__ = lazy_names(__name__, {
    "Q4_1": "shown.real_weights", "first_matrix": "shown.real_weights",
    "look_here": "shown.kernel_looks", "scale_rows": "exercises.triton_warmup.scale_rows",
    "find_exercise": "checker.catalogue", "Worker": "checker.child.session",
})  # fmt: skip
