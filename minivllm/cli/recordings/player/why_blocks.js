import { birth, listNames, newest } from "./why.js";
import { clean, number, ordinal, plural, shortName } from "./text.js";

// Why a block is held, shared, cached or empty: the dashboard's sentences
// (tui/answers/why.py). A test compares the two, moment by moment.

const LOOKUPS_KEPT = 32;

export function whyBlock(moment, past, id) {
  const { fold } = moment, block = fold.blocks[id];
  if (!block) {
    return `There is no block ${id}: the pool has ${plural(fold.blocks.length, "block")}, and the`
      + ` first is 0.`;
  }
  if (id < (fold.header.reserved_blocks ?? 0)) {
    return `Block ${id} is vLLM's null block: no sequence ever gets it.`;
  }
  if (isLeased(fold, id) && !moment.owners(id).length) {
    return `Block ${id} is kept until another engine has read it, or its lease is over.`;
  }
  if (block.ref_cnt > 1) return shared(moment, past, id, block);
  if (block.ref_cnt === 1) return held(moment, past, id, block);
  const place = fold.freeQueue.indexOf(id) + 1;
  if (!place) {
    return `Block ${id} has just lost its last owner: an event soon puts it on the free queue.`;
  }
  const where = `the ${ordinal(place)} of ${number(fold.freeQueue.length)} in the free queue`;
  if (block.hash !== null) {
    const isSaved = fold.hostBlocks.some((copy) => copy.hash === block.hash);
    return `Block ${id} is free but still cached: ${left(moment, id)}its content is unchanged, so`
      + ` a prompt with the same beginning can reuse it; it is ${where}, and allocating it evicts`
      + ` that content${isSaved ? ", but not the host's copy of it" : ""}.`;
  }
  if (!moment.ages.blocks[id]) {
    return `Block ${id} is empty: no sequence has held it in this recording so far; it is`
      + ` ${where}.`;
  }
  const why = moment.header.enable_prefix_caching ? "its content had no hash"
    : "prefix caching is off";
  return `Block ${id} is empty: ${left(moment, id)}${why}, so no lookup can find it; it is`
    + ` ${where}.`;
}

function isLeased(fold, id) {
  return [...fold.leases.values()].some((kept) => kept.includes(id));
}

function held(moment, past, id, block) {
  const owners = moment.owners(id), size = moment.header.block_size;
  if (!owners.length) {
    return `Block ${id} is in use, but the block table that holds it is not known at this moment.`;
  }
  const [[seqId, logical]] = owners;
  const written = moment.numWritten(id, owners);
  let use = "it has no hash yet, so no other sequence can find it";
  if (block.hash !== null) {
    use = "it is full and has a hash, so a prompt with the same beginning can share it";
  } else if (!moment.header.enable_prefix_caching) {
    use = "prefix caching is off, so no other sequence can find it";
  }
  return `Block ${id} is held by ${shortName(seqId)} alone, as entry ${number(logical)} of its`
    + ` block table${taken(moment, past, seqId, id)}: ${number(written)} of`
    + ` ${plural(size, "token")} are written, and ${use}.`;
}

function taken(moment, past, seqId, id) {
  const step = hitIn(past, seqId, id);
  if (step !== null) return `, found in the prefix cache in step ${number(step)}`;
  const born = moment.ages.blocks[id]?.born ?? null;
  return born === null ? "" : `, in use since step ${number(born)}`;
}

function shared(moment, past, id, block) {
  const owners = moment.owners(id).map(([seqId]) => seqId);
  const took = new Map(), found = new Map(), forked = new Map();
  for (const seqId of owners) {
    const hit = hitIn(past, seqId, id), own = hit === null ? tookIn(moment, past, seqId, id) : null;
    const fork = birth(past, seqId);
    if (hit !== null) found.set(seqId, hit);
    else if (own !== null) took.set(seqId, own);
    else if (fork?.ev === "request.forked" && !preemption(past, seqId, fork)) {
      forked.set(seqId, fork.step);
    }
  }
  const reasons = [];
  if (took.size) reasons.push(`${listNames([...took.keys()])} took it ${inSteps(took)}`);
  if (found.size) {
    reasons.push(`${listNames([...found.keys()])} found it in the prefix cache ${inSteps(found)}`);
  }
  if (forked.size) {
    const were = forked.size === 1 ? "was" : "were";
    reasons.push(`${listNames([...forked.keys()])} ${were} forked ${inSteps(forked)}`);
  }
  const because = reasons.join(", and ") || "how they got it is no longer in memory";
  const lease = isLeased(moment.fold, id) ? " and a lease of another engine" : "";
  return `Block ${id} is shared by ${listNames(owners)}${lease} (reference count`
    + ` ${number(block.ref_cnt)}): ${because}; ${costs(moment, id)}.`;
}

function tookIn(moment, past, seqId, id) {
  const age = moment.ages.blocks[id];
  const born = birth(past, seqId);
  if (!age || age.born === null || age.takenBy !== seqId || !born) return null;
  const lost = preemption(past, seqId, born);
  return !lost || lost.step < age.born ? age.born : null;
}

function preemption(past, seqId, since) {
  return newest(past, (e) =>
    e.ev === "request.preempted" && e.seq_id === seqId && e.seq > since.seq);
}

function costs(moment, id) {
  const size = moment.header.block_size, written = moment.numWritten(id, moment.owners(id));
  if (written === size) {
    return `it is full, so its ${plural(size, "token")} are stored once for all of them`;
  }
  return `${number(written)} of its ${plural(size, "token")} are written, and the next`
    + ` sequence that writes into it copies it first`;
}

function inSteps(bySequence) {
  const steps = [...new Set(bySequence.values())].sort((a, b) => a - b);
  if (steps.length === 1) return `in step ${number(steps[0])}`;
  return `in steps ${number(steps[0])} to ${number(steps.at(-1))}`;
}

// The step in which a sequence hit the block; null if that is among no recent lookup.
function hitIn(past, seqId, id) {
  let lookups = 0, group = "", found = null;
  for (let at = past.length - 1; at >= 0; at--) {
    const event = past[at];
    if (event.ev !== "block.hit" && event.ev !== "block.missed") continue;
    if (group !== `${event.step} ${event.seq_id}`) {
      if (found) return null; // its newest lookup had no such hit
      group = `${event.step} ${event.seq_id}`;
      lookups += 1;
      if (lookups > LOOKUPS_KEPT) return null;
    }
    if (event.seq_id !== seqId) continue;
    found = event;
    if (event.ev === "block.hit" && event.block_id === id) return event.step;
  }
  return null;
}

function left(moment, id) {
  const age = moment.ages.blocks[id];
  if (!age?.lastOwner) return "";
  return `${shortName(age.lastOwner)} held it last, until step ${number(age.touched)}, and `;
}

// Whose copy a block of the second memory has, who loads it, and when it is lost.
export function whyHostBlock(moment, id) {
  const { fold } = moment, name = `The host's block ${number(id)}`;
  if (id >= fold.hostBlocks.length) {
    return `${name} does not exist: the host's memory has ${number(fold.hostBlocks.length)} here.`;
  }
  const { hash } = fold.hostBlocks[id];
  if (hash === null) return `${name} is empty.`;
  const owner = moment.ages.hostOwners.get(hash);
  const said = `${name} is a copy of a block${owner ? ` of ${shortName(owner)}` : ""}`
    + ` (hash ${clean(hash).slice(0, 12)})`;
  const readers = [...fold.loads].filter(([, load]) => load.host_blocks.includes(id));
  if (readers.length) {
    return `${said}: it is being loaded for ${listNames(readers.map(([seqId]) => seqId))},`
      + ` so it cannot be reused now.`;
  }
  const use = fold.blocks.some((block) => block.hash === hash)
    ? "the KV cache has it, too, so a prompt with the same beginning hits it there"
    : "only the host has it, so a prompt with the same beginning loads it";
  const place = fold.hostQueue.indexOf(id) + 1;
  return `${said}: ${use}; it is the ${ordinal(place)} of ${number(fold.hostQueue.length)} to be reused.`;
}
