// Whether an address is a page's, and what stands in its places.

/** In `pattern`, `:name` stands for one part. Undefined: the path is not of this form, or holds what nothing can be called. */
export function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const parts = path.split("/");
  const wanted = pattern.split("/");
  if (wanted.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
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
  // In an address a browser takes these for a way up, to whatever else the server answers there.
  return name.split("/").some((one) => one === "." || one === "..") ? undefined : name;
}
