"""Each weight is used for each token of the contexts."""

from minivllm.lessons.sketches.step_limits import ModelSizes, StepWork

HINT = "The tokens in the cache went through the model in earlier steps. Which go through it now?"


def operations(model: ModelSizes, work: StepWork) -> int:
    return 2 * model.num_weights * work.num_kv_tokens
