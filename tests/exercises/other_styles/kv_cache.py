"""Generation by recursion, and sums by formula."""

from minivllm.lessons.shown.tiny_attention import TinyKVCache, next_token


class TinyKVCache_:  # noqa: N801
    def extend(self, model, token_ids):
        while (position := len(self.keys)) < len(token_ids):
            pair = model.key_and_value(token_ids[position], position)
            for stored, numbers in zip((self.keys, self.values), pair, strict=True):
                stored.append(numbers)


def next_token_(model, token_ids, cache):
    cache.extend(model, token_ids)
    *_, (position, newest) = enumerate(token_ids)
    attended = model.attend(model.query(newest, position), cache.keys, cache.values)
    return model.choose(attended)


def generate_without_cache(model, prompt, max_tokens):
    if max_tokens == 0:
        return []
    first = next_token(model, prompt, TinyKVCache())
    return [first, *generate_without_cache(model, [*prompt, first], max_tokens - 1)]


def generate_with_cache(model, prompt, max_tokens):
    cache, new = TinyKVCache(), []
    while len(new) < max_tokens:
        new += [next_token(model, [*prompt, *new], cache)]
    return new


def num_tokens_computed(num_prompt_tokens, max_tokens, has_cache):
    if not has_cache:
        return max_tokens * num_prompt_tokens + max_tokens * (max_tokens - 1) // 2
    return num_prompt_tokens + max_tokens - 1
