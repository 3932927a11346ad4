"""A number for the mask, and isinstance for match."""

from minivllm.structured_output.reference import (
    _END,
    NOTHING,
    _after,
    _Byte,
    _Either,
    _either,
    _may_end,
    _Then,
    _then,
)


class RegexAutomaton:
    def allowed_tokens(self, state, vocabulary, eos_token_ids=()):
        allowed = set(eos_token_ids) if self.may_end(state) else set()
        for token_id in range(len(vocabulary)):
            if not vocabulary[token_id]:
                continue
            left = state
            for byte in vocabulary[token_id]:
                left = _after(left, byte)
            if left is not NOTHING and left != NOTHING:
                allowed.add(token_id)
        return sorted(allowed)


def bitmask(token_ids, vocab_size):
    number = 0
    for token_id in token_ids:
        number |= 1 << token_id
    return number.to_bytes((vocab_size + 7) // 8, "little")


def _after_(state, byte):
    if isinstance(state, _Byte):
        return _END if byte in state.options else NOTHING
    if isinstance(state, _Either):
        left = NOTHING
        for option in state.options:
            left = _either([left, _after(option, byte)])
        return left
    if isinstance(state, _Then):
        first, rest = state.first, state.rest
        ways = [_then(_after(first, byte), rest)]
        if _may_end(first):
            ways.append(_after(rest, byte))
        return _either(ways)
    return _then(_after(state.inner, byte), state)


def _may_end_(state):
    if isinstance(state, _Byte):
        return False
    if isinstance(state, _Either):
        return not all(not _may_end(option) for option in state.options)
    if isinstance(state, _Then):
        return _may_end(state.first) and _may_end(state.rest)
    return True
