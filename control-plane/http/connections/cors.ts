// Cross-origin requests of browsers. Applies to every route before routing, because inference requests bypass Fastify's router.
// Never allows credentials, so a session cookie cannot be used from another origin: pages send a key or a scoped token.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ClientOf } from "./client-address.ts";
import { apiHeaders } from "./secure-headers.ts";

const methods = "GET, POST, PUT, PATCH, DELETE";
/** A browser may reuse the reply to a preflight for this time; browsers have lower maxima of their own. */
const preflightMaxAgeS = 7200;

/** Origins of `STOKER_CORS_ORIGINS`: as browsers send them, or `*`. */
export type AllowedOrigins = readonly string[];

/**
 * Adds the headers for an allowed origin to the response. Returns true if it was a preflight, which has been sent. Requests of other
 * origins are served without these headers, so a browser withholds the response from the page.
 */
export function createCors(
  origins: AllowedOrigins,
  clientOf: ClientOf,
): (req: IncomingMessage, res: ServerResponse) => boolean {
  const allowed = new Set(origins);
  const isAny = allowed.has("*");
  return (req, res) => {
    if (allowed.size === 0) return false;
    const { origin } = req.headers;
    // Caches must not serve one origin's response to another.
    if (!isAny) res.setHeader("vary", "origin");
    if (origin === undefined || !(isAny || allowed.has(origin))) return false;
    res.setHeader("access-control-allow-origin", isAny ? "*" : origin);
    // Rate limits, request ids, Retry-After, Deprecation.
    res.setHeader("access-control-expose-headers", "*");
    if (req.method !== "OPTIONS" || req.headers["access-control-request-method"] === undefined) return false;
    const asked = req.headers["access-control-request-headers"];
    res.writeHead(204, [
      "access-control-allow-methods",
      methods,
      ...(asked === undefined ? [] : ["access-control-allow-headers", asked]),
      "access-control-max-age",
      String(preflightMaxAgeS),
      ...apiHeaders(clientOf(req).isSecure),
    ]);
    res.end();
    req.resume();
    return true;
  };
}
