// Dashboards are neighbours below one domain, so a browser counts them as one site: SameSite keeps the cookie of one from no
// page of another. Whose page a request comes from is asked here instead. Pure.
import type { IncomingHttpHeaders } from "node:http";

const harmless: ReadonlySet<string | undefined> = new Set(["GET", "HEAD"]);

/** Whether a page of another origin sent it, other than by a link that somebody followed. */
export function isForeign(method: string | undefined, headers: IncomingHttpHeaders, isUpgrade: boolean): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) {
    if (site === "same-origin" || site === "none") return false;
    const isVisit = headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document";
    return isUpgrade || !isVisit || !harmless.has(method);
  }
  // An older browser, or none: those say where a write or a WebSocket comes from.
  const { origin } = headers;
  if (origin === undefined || (harmless.has(method) && !isUpgrade)) return false;
  return !URL.canParse(origin) || new URL(origin).host !== headers.host?.toLowerCase();
}
