/** Parameters of a path. In `pattern`, `:name` matches one segment. Undefined if the path does not match or has an invalid name. */
export function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const parts = path.split("/");
  const expected = pattern.split("/");
  if (expected.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of expected.entries()) {
    const given = parts[i] as string;
    if (part === given) continue;
    const value = part.startsWith(":") ? nameOf(given) : undefined;
    if (value === undefined) return undefined;
    params[part.slice(1)] = value;
  }
  return params;
}

function nameOf(part: string): string | undefined {
  let name: string;
  try {
    name = decodeURIComponent(part);
  } catch {
    return undefined;
  }
  // Browsers resolve these segments to other paths of the server.
  return name.split("/").some((one) => one === "." || one === "..") ? undefined : name;
}
