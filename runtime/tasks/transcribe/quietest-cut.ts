// Chooses the end of a window inside a recording: the quietest moment of its last third, so that no word is cut. Pure.
const momentSeconds = 0.2;

/** Returns the number of the window's samples to transcribe now. */
export function quietestCut(window: Float32Array, rate: number): number {
  const moment = Math.max(1, Math.round(momentSeconds * rate));
  const step = Math.max(1, Math.round(moment / 4));
  let best = window.length;
  let least = Number.POSITIVE_INFINITY;
  for (let at = Math.floor((window.length * 2) / 3); at + moment <= window.length; at += step) {
    let energy = 0;
    for (let i = at; i < at + moment; i += 1) energy += (window[i] as number) ** 2;
    // The later of two silences: fewer windows for the same recording.
    if (energy > least) continue;
    least = energy;
    best = at + Math.round(moment / 2);
  }
  return best;
}
