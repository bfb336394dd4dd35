// Where a request for an upgrade carries its credential: in a header, or, from a browser, in a subprotocol.
import type { IncomingHttpHeaders } from "node:http";
import type { SocketRoute } from "./socket-route.ts";

/** Chosen instead of a subprotocol that carries a key. */
export function chooseProtocol(protocols: Set<string>): string | false {
  return [...protocols].find((one) => !one.includes(".")) ?? false;
}

/** Prefix of the keys from `POST /v1/realtime/client_secrets`; a scoped token follows it. */
export const ephemeralPrefix = "ek_";

export const bearer = (key: string): IncomingHttpHeaders => ({ authorization: `Bearer ${key}` });
const credentials = ["authorization", "xi-api-key", "x-api-key"] as const;

/** Headers with the credential of this request; undefined: it has none. */
export function headersWithKey(
  { keyProtocol }: SocketRoute,
  headers: IncomingHttpHeaders,
): IncomingHttpHeaders | undefined {
  if (credentials.some((name) => headers[name])) {
    const ephemeral = /^bearer +ek_(\S+)$/i.exec(headers.authorization ?? "")?.[1];
    return ephemeral === undefined ? headers : { ...headers, ...bearer(`jwt:${ephemeral}`) };
  }
  if (keyProtocol === undefined) return undefined;
  const offered = (headers["sec-websocket-protocol"] ?? "").split(",").map((one) => one.trim());
  const given = offered.find((one) => one.startsWith(keyProtocol))?.slice(keyProtocol.length);
  if (!given) return undefined;
  const key = given.startsWith(ephemeralPrefix) ? given.slice(ephemeralPrefix.length) : given;
  // A subprotocol cannot contain the colon of a scoped token's prefix.
  return bearer(/^eyJ[\w-]*\.[\w-]+\.[\w-]+$/.test(key) ? `jwt:${key}` : key);
}
