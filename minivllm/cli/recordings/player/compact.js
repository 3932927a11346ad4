// One line for many events, as in minivllm/events/recording/compact.py.

const KINDS = {
  "step.decodes": (line, at) => ({
    ev: "step.scheduled", seq_id: line.seq_ids[at], num_tokens: 1, kind: "decode",
    num_computed_tokens: line.num_computed_tokens[at],
  }),
  "tokens.sampled": (line, at) => ({
    ev: "token.sampled", seq_id: line.seq_ids[at], token_id: line.token_ids[at],
    text: line.texts[at], logprob: line.logprobs?.[at] ?? null, of_step: line.of_step ?? null,
  }),
};

// The events of a line: itself, or one for each of its sequences, with consecutive numbers.
export function eventsOf(line) {
  const make = KINDS[line.ev], { seq, step, t } = line;
  return make ? line.seq_ids.map((_, at) => ({ seq: seq + at, step, t, ...make(line, at) })) : [line];
}
