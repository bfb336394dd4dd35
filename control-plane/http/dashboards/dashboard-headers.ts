// Filters headers between a browser and a dashboard, which is a customer's program: it receives no credentials of ours, and
// cannot affect other origins. Pure. Headers are names and values in turn, as in Node.

/** Hop-by-hop headers (RFC 9110, 7.6.1), in addition to those that `Connection` names. */
const hopByHop: ReadonlySet<string> = new Set([
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Our credentials, headers about the client that only we set, and headers that undici sets. */
const neverToDashboard: ReadonlySet<string> = new Set([
  ...["authorization", "x-api-key", "xi-api-key"],
  ...["forwarded", "x-real-ip", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto"],
  ...["host", "expect"],
]);

/**
 * Headers that a browser would apply to other hosts of the site or other origins of the host, and headers that a proxy in front
 * would obey, for example by sending its own files.
 */
const neverToBrowser: ReadonlySet<string> = new Set([
  ...["alt-svc", "clear-site-data", "strict-transport-security"],
  ...["x-sendfile", "x-lighttpd-send-file", "x-reproxy-url"],
]);
/** `x-accel-buffering` of an event stream affects only that response. */
const isForOthers = (key: string) =>
  key.startsWith("x-stoker-") || (key.startsWith("x-accel-") && key !== "x-accel-buffering");

export interface Visitor {
  /** Host header of the browser. */
  readonly host: string;
  readonly scheme: "http" | "https";
  /** Address of the client. */
  readonly ip: string;
  /** The name of the cookie that opens dashboards. */
  readonly cookie: string;
}

export function toDashboard(raw: readonly string[], visitor: Visitor): string[] {
  const passed: string[] = [];
  const named = namedByConnection(raw);
  for (const [name, value] of inTurn(raw)) {
    const key = name.toLowerCase();
    if (hopByHop.has(key) || named.has(key) || neverToDashboard.has(key) || key.startsWith("x-stoker-")) continue;
    const kept = key === "cookie" ? withoutOwn(value, visitor.cookie) : value;
    if (kept !== "") passed.push(name, kept);
  }
  const { host, scheme, ip } = visitor;
  return [
    ...passed,
    ...["host", host, "x-forwarded-host", host],
    ...["x-forwarded-proto", scheme, "x-forwarded-for", ip],
  ];
}

/** `cookie`: name of our cookie. */
export function toBrowser(raw: readonly string[], cookie: string): string[] {
  const passed: string[] = [];
  // Last: after a length Node rejects bytes above ASCII in a `Content-Disposition`.
  const lengths: string[] = [];
  const named = namedByConnection(raw);
  for (const [name, value] of inTurn(raw)) {
    const key = name.toLowerCase();
    if (hopByHop.has(key) || named.has(key) || neverToBrowser.has(key)) continue;
    if (isForOthers(key)) continue;
    if (key === "set-cookie" && (isForDomain(value) || nameOf(value) === cookie)) continue;
    (key === "content-length" ? lengths : passed).push(name, value);
  }
  return [...passed, ...lengths];
}

const inTurn = (raw: readonly string[]): [string, string][] =>
  Array.from({ length: raw.length >> 1 }, (_, i) => [raw[2 * i] as string, raw[2 * i + 1] as string]);

function namedByConnection(raw: readonly string[]): ReadonlySet<string> {
  const named = inTurn(raw).filter(([name]) => name.toLowerCase() === "connection");
  return new Set(named.flatMap(([, value]) => value.split(",").map((one) => one.trim().toLowerCase())));
}

function withoutOwn(header: string, own: string): string {
  return header
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair !== "" && nameOf(pair) !== own)
    .join("; ");
}

const nameOf = (cookie: string): string => (cookie.split(/[=;]/, 1)[0] ?? "").trim();

/** Such a cookie would also be sent to other dashboards and perhaps to the console. */
const isForDomain = (setCookie: string): boolean => /;\s*domain\s*(=|;|$)/i.test(setCookie);
