// The places of the slider. One recording: a place per step. Several: a place per moment at
// which a step of any of them ends, on the engines' common clock.

const START = { at: 0, step: 0, used: 0 };

export function momentsOf(tracks) {
  if (tracks.length === 1) {
    const [track] = tracks;
    return [START, ...track.ends].map((end) => ({ t: end.t ?? track.header.mono, ends: [end] }));
  }
  const times = new Set([0]);
  for (const track of tracks) for (const end of track.ends) times.add(round(end.t - track.header.mono));
  const sorted = [...times].sort((a, b) => a - b);
  const rest = sorted.map((t) => ({ t, ends: tracks.map((track) => track.endBy(t)) }));
  return [{ t: 0, ends: tracks.map(() => START) }, ...rest];
}

// The place that shows `step` of the first recording.
export function placeOfStep(moments, step) {
  const found = moments.findIndex(({ ends: [end] }) => end.at > 0 && end.step >= step);
  return found < 0 ? moments.length - 1 : found;
}

function round(t) {
  return Math.round(t * 1e6) / 1e6;
}
