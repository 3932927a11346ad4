// Plays recordings with the site's player and compares every moment with what Python expects.
// Called by test_fold_equality.py; prints one JSON object per recording.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const [modules, pairs] = process.argv.slice(2);
const { stateOf } = await import(`${modules}/fold.js`);
const { parseRecording, trackOf } = await import(`${modules}/load.js`);
const { Narration } = await import(`${modules}/narration.js`);
const { narrated, sentenceOf, whyWaiting } = await import(`${modules}/sentences.js`);
const { Moment } = await import(`${modules}/track.js`);
const { whySequence } = await import(`${modules}/why.js`);
const { whyBlock, whyHostBlock } = await import(`${modules}/why_blocks.js`);

// Python writes the digits of small numbers in another way, so a probability is compared in bits.
function bitsOf(grammar) {
  if (!grammar) return null;
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(grammar.refused_probability);
  return [grammar.position, grammar.num_allowed, grammar.refused_token_id, bytes.toString("hex")];
}

function canonical(moment) {
  const state = stateOf(moment.fold), { ages, letters } = moment;
  state.sequences = state.sequences.map(([id, one]) => [id, { ...one, grammar: bitsOf(one.grammar) }]);
  state.token_pieces.sort((a, b) => a[0] - b[0]);
  return JSON.stringify([
    ...Object.values(state),
    [...letters.given], [...letters.hues],
    ages.blocks.map((age) => age && [age.touched, age.lastOwner, age.born, age.takenBy, age.content]),
    [...ages.changed].sort((a, b) => a - b),
    ages.beats.map((one) => [...one].sort((a, b) => a[0] - b[0])),
    ages.lastScheduled,
    ...[ages.hostOwners, ages.stores].map((one) => [...one].sort(([a], [b]) => (a < b ? -1 : 1))),
  ]);
}

function digest(text) {
  return createHash("md5").update(text.replace(/(\d)\.0(?=[,}\]])/g, "$1")).digest("hex");
}

function saidAt(moment, past) {
  const { fold } = moment;
  return [
    ...[...fold.running, ...fold.waiting, ...fold.history.slice(-2).map((one) => one.seq_id)]
      .map((id) => whySequence(moment, past, id)),
    ...fold.blocks.map((_, id) => whyBlock(moment, past, id)),
    ...fold.hostBlocks.map((_, id) => whyHostBlock(moment, id)),
    ...fold.waiting.map((_, at) => whyWaiting(moment, at)),
  ];
}

// The first difference between the player and Python, or null.
function compare(recording, expected) {
  const moment = new Moment(recording.header, recording.state);
  for (const [at, event] of recording.events.entries()) {
    moment.apply(event);
    const text = canonical(moment), wanted = JSON.parse(expected[at]);
    if (digest(text) !== wanted.digest) return { at, event, player: text };
    const sentence = sentenceOf(event);
    if (sentence !== wanted.sentence) return { at, event, player: sentence, python: wanted.sentence };
    if (!wanted.said) continue;
    const said = saidAt(moment, recording.events.slice(0, at + 1));
    const wrong = said.findIndex((one, number) => one !== wanted.said[number]);
    if (wrong >= 0 || said.length !== wanted.said.length) {
      return { at, event, player: said[wrong], python: wanted.said[wrong] };
    }
  }
  return null;
}

// The narrated line of a paused picture; Python's log is shorter, so it may have no decision left.
function compareNarration(text, expected) {
  const track = trackOf(text, "recording");
  for (const [at, line] of expected.entries()) {
    const wanted = JSON.parse(line).narrated;
    if (!wanted) continue;
    const told = new Narration(track).look(at + 1, 0, true);
    if (told === null || narrated(told) !== wanted) {
      return { at, player: told && narrated(told), python: wanted };
    }
  }
  return null;
}

// A seek to any moment must show the state that playing to it shows.
function compareSeeks(text, expected) {
  const track = trackOf(text, "recording"), count = track.events.length;
  for (let number = 1; number <= 60; number++) {
    const at = 1 + ((number * 7919) % count);
    if (digest(canonical(track.seek(at))) !== JSON.parse(expected[at - 1]).digest) return { seek: at };
  }
  return null;
}

for (const [file, expectation] of JSON.parse(readFileSync(pairs, "utf8"))) {
  const text = readFileSync(file, "utf8");
  const expected = readFileSync(expectation, "utf8").trimEnd().split("\n");
  const recording = parseRecording(text, file);
  const difference = recording.events.length !== expected.length
    ? { events: recording.events.length, expected: expected.length }
    : compare(recording, expected) ?? compareSeeks(text, expected)
      ?? compareNarration(text, expected);
  console.log(JSON.stringify({ file, events: recording.events.length, difference }));
}
