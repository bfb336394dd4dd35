// Arithmetic on what graphs take and give. Pure.
export function softmax(values: ArrayLike<number>): number[] {
  const all = Array.from(values);
  const max = all.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const powers = all.map((value) => Math.exp(value - max));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

/** One array of all parts. */
export function joined(parts: readonly Float32Array[]): Float32Array<ArrayBuffer> {
  const out = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export const sigmoid = (value: number) => 1 / (1 + Math.exp(-value));

/** Rounds to the precision of a float32, so that answers have no insignificant digits. */
export const rounded = (value: number) => Math.round(value * 1e8) / 1e8;

export interface Scored {
  readonly label: string;
  readonly score: number;
}

/** The most likely first. */
export function ranked(labels: readonly string[], scores: readonly number[]): Scored[] {
  const all = scores.map((score, index) => ({ label: labels[index] ?? `LABEL_${index}`, score: rounded(score) }));
  return all.sort((a, b) => b.score - a.score);
}
