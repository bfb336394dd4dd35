// Dashboards share a domain, so browsers treat them as one site, and SameSite does not protect the cookie of one from pages of
// another. This checks which page sent a request. Pure.
import type { IncomingHttpHeaders } from "node:http";

const harmless: ReadonlySet<string | undefined> = new Set(["GET", "HEAD"]);

/** Returns true when a page of another origin sent the request, unless a person followed a link. */
export function isForeign(method: string | undefined, headers: IncomingHttpHeaders, isUpgrade: boolean): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) {
    if (site === "same-origin" || site === "none") return false;
    const isVisit = headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
    return isUpgrade || !isVisit || !harmless.has(method);
  }
  // Older browsers send Origin with writes and WebSockets.
  const { origin } = headers;
  if (origin === undefined || (harmless.has(method) && !isUpgrade)) return false;
  return !URL.canParse(origin) || new URL(origin).host !== headers.host?.toLowerCase();
}
