// Voice for a speaker with measured recordings: the presets whose pitch is nearest, the nearest with most weight. Pure.
import type { Voice } from "./voice.ts";

const most = 3;

/** `presetsHz`: median pitch by preset. Undefined where nothing is known of the presets. */
export function blendFor(pitchHz: number, presetsHz: ReadonlyMap<string, number>): Voice | undefined {
  // Perceived pitch is logarithmic: an octave is as far at 100 Hz as at 200.
  const distance = (hz: number) => Math.abs(Math.log2(hz / pitchHz));
  const nearest = [...presetsHz].sort(([, a], [, b]) => distance(a) - distance(b)).slice(0, most);
  if (nearest.length === 0) return undefined;
  // A hundredth of an octave is no difference, and keeps the weights finite.
  const parts = nearest.map(([preset, hz]) => ({ preset, weight: 1 / (distance(hz) + 0.01) }));
  const total = parts.reduce((sum, { weight }) => sum + weight, 0);
  return parts.map(({ preset, weight }) => ({ preset, weight: weight / total }));
}
