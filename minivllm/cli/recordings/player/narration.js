import { decisionsOf, rankOf } from "./sentences.js";

// `Narration`: which decision the narrated line shows, as in the dashboard (state/narration.py).

const SECONDS_TO_READ = 2, STEPS_TO_AGE = 30;

export class Narration {
  constructor(track) {
    this.track = track;
    this.shown = null;
    this.until = 0;
  }

  isOld(step, now, paused) {
    return step - this.shown.step > STEPS_TO_AGE && (paused || now >= this.until);
  }

  // now: seconds. While the picture moves, the most notable decision since the last one; when
  // paused, that of the last step that has one.
  look(at, now, paused) {
    const { track } = this;
    track.told ??= decisionsOf(track, track.events).filter((row) => rankOf(row) >= 0);
    const last = track.events[at - 1]?.seq ?? -1;
    const told = track.told.filter((row) => row.seq <= last);
    if (this.shown && (!told.length || told.at(-1).seq < this.shown.seq)) this.shown = null;
    if (!paused && now < this.until) return this.shown;
    const newer = told.filter((row) => (!this.shown || paused
      ? row.step === told.at(-1).step : row.seq > this.shown.seq));
    if (newer.length) {
      this.shown = newer.reduce((best, row) => (rankOf(row) >= rankOf(best) ? row : best));
      this.until = now + SECONDS_TO_READ;
    }
    return this.shown;
  }
}
