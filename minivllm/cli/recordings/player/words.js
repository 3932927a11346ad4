import { clean } from "./text.js";

// The tokens of sequences and blocks as words.

const words = new Map(); // piece -> word

export function word(fold, tokenId) {
  const piece = fold.pieces.get(tokenId);
  if (piece === undefined) return ` ${tokenId}`;
  let found = words.get(piece);
  if (found === undefined) words.set(piece, (found = clean(piece)));
  return found;
}

// The tokens in a block: {ids, numPrompt, isNew(index)}; `owners` as of `moment.owners`.
export function contentsOf(moment, id, owners) {
  const { fold, header } = moment, size = header.block_size;
  if (!owners.length) {
    const ids = fold.blocks[id]?.hash ? moment.ages.content(id) : []; // a reader may ask for any
    return { ids, numPrompt: ids.length, isNew: () => false };
  }
  // Other owners of a shared block may not have computed its tokens yet.
  const computed = ([seqId]) => fold.sequences.get(seqId).num_computed_tokens;
  const [seqId, entry] = owners.reduce((a, b) => (computed(b) > computed(a) ? b : a));
  const sequence = fold.sequences.get(seqId), first = entry * size;
  const last = Math.min(first + moment.numWritten(id, owners), fold.numTokens(sequence));
  const prompt = fold.requests.get(sequence.request_id).prompt_token_ids.slice(first, last);
  const skipped = sequence.num_prompt_tokens;
  const output = sequence.output_token_ids.slice(
    Math.max(first - skipped, 0), Math.max(last - skipped, 0));
  const written = fold.scheduled
    .filter((share) => owners.some(([one]) => one === share.seq_id))
    .map((share) => [
      Math.max(share.num_computed_tokens, fold.sequences.get(share.seq_id)?.num_cached_tokens ?? 0),
      share.num_computed_tokens + share.num_tokens,
    ]);
  return {
    ids: [...prompt, ...output],
    numPrompt: prompt.length,
    isNew: (index) => written.some(([from, to]) => first + index >= from && first + index < to),
  };
}
