// What of HTTP passes between a browser and a dashboard, which is a customer's program: nothing of ours to it, nothing from it
// that would reach beyond its own origin. Pure. Headers are names and values in turn, as Node gives them.

/** Between two neighbours alone (RFC 9110, 7.6.1), besides those that `Connection` names. */
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

/** Keys of ours, what only we say of the client, and what undici says itself. */
const neverToDashboard: ReadonlySet<string> = new Set([
  ...["authorization", "x-api-key", "xi-api-key"],
  ...["forwarded", "x-real-ip", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto"],
  ...["host", "expect"],
]);

/**
 * What a browser would apply to other hosts of the same site, or to other origins of the same host; and what a proxy before us
 * would obey, such as by sending files of its own.
 */
const neverToBrowser: ReadonlySet<string> = new Set([
  ...["alt-svc", "clear-site-data", "strict-transport-security"],
  ...["x-sendfile", "x-lighttpd-send-file", "x-reproxy-url"],
]);
/** An event stream's word that it is not to be held back concerns that answer alone. */
const isForOthers = (key: string) =>
  key.startsWith("x-stoker-") || (key.startsWith("x-accel-") && key !== "x-accel-buffering");

export interface Visitor {
  /** As the browser wrote it. */
  readonly host: string;
  readonly scheme: "http" | "https";
  /** Of whoever connected to us. */
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

/** `cookie`: the name of ours. */
export function toBrowser(raw: readonly string[], cookie: string): string[] {
  const passed: string[] = [];
  // Last: behind a length Node takes the name in a `Content-Disposition` for other than bytes, and refuses it.
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

/** Such a cookie would go to other dashboards as well, and perhaps to the console. */
const isForDomain = (setCookie: string): boolean => /;\s*domain\s*(=|;|$)/i.test(setCookie);
