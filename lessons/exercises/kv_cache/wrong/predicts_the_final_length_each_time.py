"""Without a cache, each step computes the whole final text."""

HINT = "In the first step there is only the prompt. How many tokens go through the model there?"


def num_tokens_computed(num_prompt_tokens: int, max_tokens: int, has_cache: bool) -> int:
    if has_cache:
        return num_prompt_tokens + max_tokens - 1
    return (num_prompt_tokens + max_tokens) * max_tokens
