// The playground's Python, in a worker: the page stays quick, and can end a run that does not end.
//
//   in:  { id, call: "play_text", argument: "..." }    a function of minivllm.lab.playground.browser
//   out: { loaded: bytes } | { ready: seconds } | { failed: sentence } | { id, answer: "..." } | { id, error: "..." }

const here = new URL(".", import.meta.url);
let browser = null;

// Count what arrives, also for Pyodide, which fetches most of it.
const load = self.fetch;
let loaded = 0;
self.fetch = async (...asked) => {
  const answer = await load(...asked);
  const count = new TransformStream({
    transform(chunk, onward) {
      loaded += chunk.length;
      postMessage({ loaded });
      onward.enqueue(chunk);
    },
  });
  const { status, headers } = answer;
  return answer.body ? new Response(answer.body.pipeThrough(count), { status, headers }) : answer;
};

async function bytes(address) {
  const answer = await fetch(new URL(address, here));
  if (!answer.ok) throw new Error(`${address} is missing (${answer.status})`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function begin() {
  const began = performance.now();
  const files = Promise.all([bytes("../pyodide/msgspec.whl"), bytes("engine.zip")]);
  const { loadPyodide } = await import("../pyodide/pyodide.mjs");
  const [python, archives] = await Promise.all([loadPyodide(), files]);
  for (const archive of archives) python.unpackArchive(archive, "zip", { extractDir: "/engine" });
  python.runPython("import os, sys\nsys.path.insert(0, '/engine')\nos.makedirs('/reader')\nos.chdir('/reader')");
  browser = python.pyimport("minivllm.lab.playground.browser");
  postMessage({ ready: (performance.now() - began) / 1000 });
}

const beginning = begin().catch((error) => postMessage({ failed: String(error.message) }));

onmessage = async ({ data: { id, call, argument } }) => {
  await beginning;
  if (browser === null) return;
  try {
    const answer = argument === undefined ? browser[call]() : browser[call](argument);
    postMessage({ id, answer });
  } catch (error) {
    postMessage({ id, error: String(error.message).trim().split("\n").at(-1) });
  }
};
