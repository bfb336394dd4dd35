// Where a visitor of the sign-in and sign-up pages wanted to go.

export const isEntrance = (path: string): boolean => /\/sign-(in|up)\/?$/.test(path);

/** Path after a sign-in: an invitation, the approval of a command line, or the console. `base`: path of the console. */
export function afterEntrance(search: string, base: string): string {
  const query = new URLSearchParams(search);
  if (query.has("ticket")) return `${base}/join${search}`;
  return query.has("cli") ? `${base}/security${search}` : base;
}

/** Path that an identity provider's sign-in returns to from the page at `path`. */
export function afterProvider(path: string, search: string, base: string): string {
  const cli = new URLSearchParams(search).get("cli");
  if (cli !== null) return `/login?cli=${encodeURIComponent(cli)}`;
  return isEntrance(path) ? afterEntrance(search, base) : path + search;
}
