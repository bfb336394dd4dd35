// Default security headers of every response: no MIME sniffing, no framing, no caching.
import type { FastifyInstance } from "fastify";

/** Content security policy of a page whose scripts and styles come from this server only, none inline. */
export const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

const usual = [
  ["x-content-type-options", "nosniff"],
  ["cache-control", "no-store"],
  ["content-security-policy", "default-src 'none'; frame-ancestors 'none'"],
] as const;
const transportSecurity = "max-age=31536000";

const plainHeaders: readonly string[] = usual.flat();
const secureHeaders: readonly string[] = [...plainHeaders, "strict-transport-security", transportSecurity];

/** Alternating names and values, for API responses that Fastify does not write. Browsers obey HSTS over TLS only. */
export function apiHeaders(isSecure: boolean): readonly string[] {
  return isSecure ? secureHeaders : plainHeaders;
}

export function isTls(connection: object | null): boolean {
  return connection !== null && "encrypted" in connection;
}

/** Adds them to every route registered in `app` from now on. */
export function addSecureHeaders(app: FastifyInstance): void {
  app.addHook("onSend", (request, reply, payload, done) => {
    for (const [name, value] of usual) if (!reply.hasHeader(name)) reply.header(name, value);
    if (request.protocol === "https") reply.header("strict-transport-security", transportSecurity);
    done(null, payload);
  });
}
