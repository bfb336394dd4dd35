/** Returns true when the outermost object has a duplicate key. `text` is valid JSON. */
export function hasTwice(text: string): boolean {
  const seen = new Set<string>();
  let depth = 0;
  let isKey = false;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g)) {
    if (token === "{" || token === "[") {
      depth += 1;
      isKey = depth === 1;
    } else if (token === "}" || token === "]") depth -= 1;
    else if (token === ",") isKey = depth === 1;
    else if (token === ":") isKey = false;
    else if (isKey && depth === 1) {
      // Compare parsed keys: an escaped spelling is the same key.
      const key = JSON.parse(token) as string;
      if (seen.has(key)) return true;
      seen.add(key);
    }
  }
  return false;
}
