// Reads files with the player's loader; prints for each the sentence of the refusal, or the note.

import { readFileSync } from "node:fs";

const [modules, ...paths] = process.argv.slice(2);
const { BadRecording, MOST_BYTES, trackOf, trackOfFile } = await import(`${modules}/load.js`);

const results = {};
for (const path of paths) {
  const name = path.split("/").at(-1);
  try {
    const bytes = readFileSync(path);
    const track = await trackOfFile({ name, size: bytes.length, arrayBuffer: async () => bytes });
    results[name] = { events: track.events.length, note: track.note };
  } catch (error) {
    if (!(error instanceof BadRecording)) throw error;
    results[name] = { refused: error.message };
  }
}
try { // a file that is too large is refused before it is read
  await trackOfFile({
    name: "huge.jsonl", size: 200e6, arrayBuffer: () => { throw new Error("it was read"); },
  });
} catch (error) {
  results["huge.jsonl"] = { refused: error.message, limit: MOST_BYTES };
}
try {
  trackOf([], "nothing");
} catch (error) {
  results.nothing = { refused: error.message };
}
console.log(JSON.stringify(results));
