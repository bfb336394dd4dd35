// Where a browser goes after a sign-in: a page of this server.

const origin = "http://stoker.invalid";
const maxLength = 512;

/** Returns `text` when it is a path of the console or of /login; otherwise the console. A URL of another host never passes. */
export function returnPath(text: string | undefined): string {
  const fallback = "/console";
  if (text === undefined || text.length > maxLength || !/^\/(?![/\\])[\x21-\x7e]*$/.test(text)) return fallback;
  const url = URL.parse(text, origin);
  if (!url || url.origin !== origin) return fallback;
  const path = url.pathname + url.search;
  return /^\/(console|login)(?![^/?])/.test(path) && !path.includes("\\") ? path : fallback;
}
