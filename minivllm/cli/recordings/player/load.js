import { eventsOf } from "./compact.js";
import { KNOWN_KINDS } from "./fold.js";
import { Track } from "./track.js";

// Reads a recording: a header, an optional state, then one event a line. Whatever is wrong with
// a file becomes a `BadRecording` with one sentence that says what to do.

export const MOST_BYTES = 64 * 2 ** 20;
const VERSION = 2;
const MOST_BLOCKS = 2 ** 16;

export class BadRecording extends Error {}

// What a recording is made of, checked. A cut last line is left out and noted.
export function parseRecording(text, name = "The file") {
  if (text.length > MOST_BYTES) throw new BadRecording(tooLarge(name, text.length));
  const lines = text.split("\n");
  const header = headerOf(lines[0], name);
  const events = [];
  let state = null, unknown = 0, note = "", expected = header.first_seq ?? 0;
  const isCut = lines.at(-1) !== "";
  for (let number = 1; number < lines.length; number++) {
    if (lines[number] === "") continue;
    let event;
    try {
      event = JSON.parse(lines[number]);
    } catch {
      if (number === lines.length - 1 && isCut) {
        note = `${name} is cut off in its last line, so it ends after event ${expected - 1}.`;
        break;
      }
      throw new BadRecording(`${name} is damaged at line ${number + 1}: record or copy it again.`);
    }
    if (number === 1 && event.ev === "log.state") {
      state = event.state;
      continue;
    }
    if (!isEvent(event)) {
      throw new BadRecording(`${name} is damaged at line ${number + 1}: it is no event.`);
    }
    const first = event.ev === "log.gap" ? event.seq + 1 - event.lost : event.seq;
    if (first !== expected) {
      throw new BadRecording(`${name} is damaged at line ${number + 1}: expected event ${expected},`
        + ` found event ${event.seq}.`);
    }
    for (const one of eventsOf(event)) {
      expected = one.seq + 1;
      if (KNOWN_KINDS.has(one.ev)) events.push(one);
      else unknown += 1;
    }
  }
  if (!events.length) {
    throw new BadRecording(`${name} has a header but no event: record a run that has a step.`);
  }
  return { header, state, events, unknown, note, name };
}

// A track that plays. text: the recording's lines, as text or as an array
export function trackOf(text, name = "The file") {
  const whole = Array.isArray(text) ? `${text.map(asLine).join("\n")}\n` : text;
  const recording = parseRecording(whole, name);
  const track = new Track(recording);
  track.note = recording.note;
  if (track.impossible) {
    if (!track.events.length) throw new BadRecording(`${name} cannot be played: ${track.impossible}.`);
    track.note = `${name} ends here too early: ${track.impossible}.`;
  }
  return track;
}

// A file of the reader. It is read in the page and goes nowhere.
export async function trackOfFile(file) {
  if (file.size > MOST_BYTES) throw new BadRecording(tooLarge(file.name, file.size));
  const bytes = new Uint8Array(await file.arrayBuffer());
  const packed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const text = packed ? await gunzip(bytes, file.name) : new TextDecoder().decode(bytes);
  return trackOf(text, file.name);
}

// base64 of a gzip file, as in player/recordings/*.js, into text.
export async function unpack(base64, name) {
  return gunzip(Uint8Array.from(atob(base64), (one) => one.charCodeAt(0)), name);
}

async function gunzip(bytes, name) {
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const parts = [];
    let size = 0;
    for (const reader = stream.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > MOST_BYTES) throw new BadRecording(tooLarge(name, size));
      parts.push(value);
    }
    return await new Blob(parts).text();
  } catch (error) {
    if (error instanceof BadRecording) throw error;
    throw new BadRecording(`${name} is a damaged gzip file: copy it again.`);
  }
}

function headerOf(line, name) {
  let header;
  try {
    header = JSON.parse(line);
  } catch {
    header = null;
  }
  if (header?.ev !== "meta" || (header.schema ?? "minivllm.trace") !== "minivllm.trace") {
    throw new BadRecording(`${name} is not a minivllm recording: \`minivllm demo --record`
      + ` FILE\` writes one.`);
  }
  if ((header.version ?? 1) > VERSION) {
    throw new BadRecording(`${name} has version ${header.version} of the recording format, but`
      + ` this page plays versions up to ${VERSION}: open it with the minivllm that wrote it.`);
  }
  for (const field of ["num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens"]) {
    const value = header[field], most = field === "num_blocks" ? MOST_BLOCKS : 2 ** 31;
    if (!Number.isInteger(value) || value < 1 || value > most) {
      throw new BadRecording(`${name} cannot be shown: ${field} in its header must be from 1 to`
        + ` ${most.toLocaleString("en-US")}.`);
    }
  }
  return { mono: 0, ...header };
}

function isEvent(event) {
  return typeof event?.ev === "string" && Number.isInteger(event.seq)
    && Number.isInteger(event.step) && typeof event.t === "number";
}

function asLine(line) {
  return typeof line === "string" ? line.replace(/\n$/, "") : JSON.stringify(line);
}

function tooLarge(name, bytes) {
  return `${name} is larger than this page plays (${Math.ceil(bytes / 2 ** 20)} MB of at most`
    + ` ${MOST_BYTES / 2 ** 20}): \`minivllm replay FILE\` plays files of any size.`;
}
