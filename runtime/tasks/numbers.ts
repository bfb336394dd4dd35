// Converts a graph's raw scores. Pure.
export function softmax(values: ArrayLike<number>): number[] {
  const all = Array.from(values);
  const most = all.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const powers = all.map((value) => Math.exp(value - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
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
