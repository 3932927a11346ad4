// `Python`: asks the worker, and starts a new one when an answer takes too long.

export class PythonError extends Error {}

const MISSING = "The playground's Python is not part of this site: build it with a network,"
  + " make docs, which fetches 7 MB once";

const BYTES = 12.8e6; // those that pass through fetch, without the modules

export class Python {
  constructor(base, onstate) {
    this.base = base;
    this.onstate = onstate; // called with a sentence on what Python is doing, and whether it is loading
    this.asked = new Map();
    this.next = 0;
    this.begin();
  }

  begin() {
    this.onstate("Loading Python, 14 MB …", true);
    this.worker = new Worker(`${this.base}worker.js`, { type: "module" });
    this.worker.onmessage = ({ data }) => this.heard(data);
    this.worker.onerror = () => this.fail(MISSING);
    this.dead = null;
  }

  heard({ id, answer, error, loaded, ready, failed }) {
    if (loaded !== undefined && this.dead !== null) return;
    if (loaded !== undefined) {
      const share = Math.floor((100 * loaded) / BYTES);
      this.onstate(share < 99 ? `Loading Python, 14 MB, ${share} %` : "Starting Python …", true);
      return;
    }
    if (ready !== undefined) {
      this.seconds = ready;
      this.onstate(`Python is ready (${ready.toFixed(1)} s).`);
      return;
    }
    if (failed !== undefined) {
      this.fail(/missing|dynamically imported module/.test(failed) ? MISSING : failed);
      return;
    }
    const waiting = this.asked.get(id);
    if (!waiting) return;
    this.asked.delete(id);
    clearTimeout(waiting.timer);
    if (error === undefined) waiting.resolve(JSON.parse(answer));
    else waiting.reject(new PythonError(error));
  }

  fail(sentence) {
    this.dead = sentence;
    this.onstate(`${sentence}.`);
    for (const { reject, timer } of this.asked.values()) {
      clearTimeout(timer);
      reject(new PythonError(sentence));
    }
    this.asked.clear();
  }

  // seconds: how long the answer may take once Python is ready
  ask(call, argument, seconds) {
    if (this.dead !== null) return Promise.reject(new PythonError(this.dead));
    const id = this.next++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.stop(seconds), (seconds + (this.seconds ? 0 : 120)) * 1000);
      this.asked.set(id, { resolve, reject, timer });
      this.worker.postMessage({ id, call, argument });
    });
  }

  stop(seconds) {
    this.worker.terminate();
    this.fail(`Your code did not end within ${seconds} seconds and was stopped: look for a loop that never ends`);
    this.seconds = undefined;
    this.begin();
  }
}
