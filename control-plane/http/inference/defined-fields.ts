/** Returns the fields that are neither undefined nor null. */
export function definedFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const defined: Record<string, unknown> = {};
  // Not Object.fromEntries, which takes 2.5 us for the fields of a chat instead of 0.6.
  for (const key in fields) if (fields[key] != null) defined[key] = fields[key];
  return defined;
}
