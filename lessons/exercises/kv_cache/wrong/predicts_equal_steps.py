"""Without a cache, each step computes as many tokens as the first."""

HINT = "The text grows. How many tokens go through the model in the second step, and in the third?"


def num_tokens_computed(num_prompt_tokens: int, max_tokens: int, has_cache: bool) -> int:
    if has_cache:
        return num_prompt_tokens + max_tokens - 1
    return num_prompt_tokens * max_tokens
