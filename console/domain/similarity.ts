/** Cosine of the angle between two vectors: 1 for the same direction. 0 if one of them is zero. */
export function cosine(a: readonly number[], b: readonly number[]): number {
  let dot = 0;
  let lengthA = 0;
  let lengthB = 0;
  for (let at = 0; at < Math.min(a.length, b.length); at += 1) {
    const x = a[at] as number;
    const y = b[at] as number;
    dot += x * y;
    lengthA += x * x;
    lengthB += y * y;
  }
  return lengthA === 0 || lengthB === 0 ? 0 : dot / Math.sqrt(lengthA * lengthB);
}

/** Row i, column j: similarity of vectors i and j. */
export const similarities = (vectors: readonly (readonly number[])[]): readonly (readonly number[])[] =>
  vectors.map((a) => vectors.map((b) => cosine(a, b)));
