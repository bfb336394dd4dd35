// The fundamental frequency of a voice, by the YIN method: the shortest lag at which a stretch of sound repeats itself.
// Pure. Source: de Cheveigne and Kawahara, "YIN, a fundamental frequency estimator for speech and music", 2002.
import { resample } from "./resample.ts";
import type { Sound } from "./sound.ts";

const analysisRate = 8000;
const lowestHz = 60;
const highestHz = 420;
/** Maximum normalised difference of a voiced stretch. */
const clarity = 0.15;
const frameSamples = 400;
const hopSamples = 160;
const longestLag = Math.floor(analysisRate / lowestHz);
const shortestLag = Math.ceil(analysisRate / highestHz);

/** Median over the voiced stretches, in Hz; undefined without speech. */
export function medianPitchHz(sound: Sound): number | undefined {
  const samples = resample(sound.samples, sound.rate, analysisRate);
  const floor = 0.1 * loudness(samples, 0, samples.length);
  const found: number[] = [];
  for (let at = 0; at + frameSamples + longestLag <= samples.length; at += hopSamples) {
    if (loudness(samples, at, frameSamples) < floor) continue;
    const hz = framePitch(samples, at);
    if (hz !== undefined) found.push(hz);
  }
  if (found.length < 5) return undefined;
  found.sort((a, b) => a - b);
  return found[Math.floor(found.length / 2)];
}

function framePitch(samples: Float32Array, at: number): number | undefined {
  const remains = new Float32Array(longestLag + 1).fill(1);
  let sum = 0;
  for (let lag = 1; lag <= longestLag; lag += 1) {
    let difference = 0;
    for (let i = 0; i < frameSamples; i += 1) {
      const delta = (samples[at + i] as number) - (samples[at + i + lag] as number);
      difference += delta * delta;
    }
    sum += difference;
    remains[lag] = sum === 0 ? 1 : (difference * lag) / sum;
  }
  for (let lag = shortestLag; lag < longestLag; lag += 1) {
    if ((remains[lag] as number) >= clarity) continue;
    while (lag + 1 < longestLag && (remains[lag + 1] as number) < (remains[lag] as number)) lag += 1;
    return analysisRate / peak(remains, lag);
  }
  return undefined;
}

/** The lowest point between samples, by a parabola through three of them. */
function peak(values: Float32Array, at: number): number {
  const [before, here, after] = [values[at - 1], values[at], values[at + 1]] as [number, number, number];
  const curve = before - 2 * here + after;
  return curve === 0 ? at : at + (before - after) / (2 * curve);
}

/** Root mean square. */
function loudness(samples: Float32Array, at: number, length: number): number {
  let sum = 0;
  for (let i = at; i < at + length; i += 1) sum += (samples[i] as number) ** 2;
  return Math.sqrt(sum / Math.max(1, length));
}
