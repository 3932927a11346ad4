"""With a cache, only new tokens go through the model."""

HINT = "The prompt is not in the cache from the start. What happens in the first step?"


def num_tokens_computed(num_prompt_tokens: int, max_tokens: int, has_cache: bool) -> int:
    if has_cache:
        return max_tokens
    return sum(num_prompt_tokens + number for number in range(max_tokens))
