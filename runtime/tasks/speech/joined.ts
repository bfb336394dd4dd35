/** Sounds one after the other, with silence between them. Pure. */
export function joined(parts: readonly Float32Array[], silence: number): Float32Array {
  const gaps = Math.max(0, parts.length - 1) * silence;
  const out = new Float32Array(parts.reduce((sum, { length }) => sum + length, gaps));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length + silence;
  }
  return out;
}
