// Removes secrets, which have one form on both sides, from logs, fail reasons and error texts. A last line of defence: no code
// may rely on it and log a secret.

const shapes: readonly (readonly [RegExp, string])[] = [
  [/\bBearer\s+[^\s"',;]+/gi, "Bearer [secret]"],
  // No word boundary before: escaped text may have the `n` of a line break there.
  [/(stk_|whsec_)[A-Za-z0-9+/=_-]{4,}/g, "$1[secret]"],
  [/(hf_)[A-Za-z0-9]{20,}|\b(hf_)\w{8,}/g, "hf_[secret]"],
  [/jwt:[A-Za-z0-9+/=_.-]+/g, "jwt:[secret]"],
];

export function redact(text: string): string {
  return shapes.reduce((left, [shape, instead]) => left.replace(shape, instead), text);
}
