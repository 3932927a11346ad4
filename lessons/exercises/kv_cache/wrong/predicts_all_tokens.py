"""Every token of the final text goes through the model once."""

HINT = "Nearly all tokens do. Which token of the final text does no other token look back at?"


def num_tokens_computed(num_prompt_tokens: int, max_tokens: int, has_cache: bool) -> int:
    if has_cache:
        return num_prompt_tokens + max_tokens
    return sum(num_prompt_tokens + number for number in range(max_tokens))
