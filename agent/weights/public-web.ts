// HTTP to a customer's URL: encrypted, only to public addresses at every hop, and never through the operator's proxy, which may
// reach private addresses. The checked address is the one that is connected to, and the open socket's remote address is
// checked again.
import { lookup } from "node:dns";
import { isIP } from "node:net";
import { Agent, buildConnector, request } from "undici";
import { type AddressRules, addressTest, bareHost } from "../../proto/address-rules.ts";
import type { WebAnswer } from "./web.ts";
import { unreachableHost, WeightsError } from "./weights-error.ts";

export type PublicWeb = ReturnType<typeof createPublicWeb>;

/** `allowsPrivate`: also allows any port and plain http, for installations without internet access and for tests. */
interface PublicWebOptions extends AddressRules {
  readonly silenceMs?: number;
}

const connectMs = 10_000;
const usualSilenceMs = 10_000;
const maxRedirects = 5;
const ports = new Set(["", "443", "8443"]);
const maxCharacters = 4096;

/** Throws WeightsError for a URL that is refused, whatever its host resolves to. */
export function readPublicUrl(text: string, rules: AddressRules): URL {
  const { allowsPrivate } = rules;
  if (text.length > maxCharacters) throw refused(`it has more than ${maxCharacters} characters`);
  const url = URL.parse(text);
  if (!url || url.hostname === "") throw refused("it is no URL");
  if (url.protocol !== "https:" && !(url.protocol === "http:" && allowsPrivate))
    throw refused("it must begin with https://");
  if (!allowsPrivate && !ports.has(url.port)) throw refused("its port must be 443 or 8443");
  if (url.username !== "" || url.password !== "") throw refused("it holds a user or a password");
  const host = bareHost(url.hostname);
  if (isIP(host) && !addressTest(rules)(host)) throw notPublic();
  return url;
}

export function createPublicWeb({ silenceMs = usualSilenceMs, ...rules }: PublicWebOptions) {
  const isAllowed = addressTest(rules);
  const connect = buildConnector({
    timeout: connectMs,
    // Node does not resolve a literal address: readPublicUrl has checked it.
    lookup: (hostname, options, done) =>
      lookup(hostname, { ...options, all: true }, (error, found) => {
        if (error) return done(error, []);
        // One private address is enough: the owner of the name chooses the order at every lookup.
        if (!found.every(({ address }) => isAllowed(address))) return done(notPublic(), []);
        const [first] = found;
        if (options.all || !first) return done(null, found);
        return done(null, first.address, first.family);
      }),
  });
  const agent = new Agent({
    connect: (options, done) =>
      connect(options, (...answer) => {
        const [error, socket] = answer;
        if (error || !socket || isAllowed(socket.remoteAddress ?? "")) return done(...answer);
        socket.destroy();
        return done(notPublic(), null);
      }),
  });

  async function ask(
    method: "GET" | "HEAD",
    url: URL,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<WebAnswer> {
    try {
      const answer = await request(url, {
        method,
        headers: { "user-agent": "stoker-agent", "accept-encoding": "identity", ...headers },
        signal,
        headersTimeout: silenceMs,
        bodyTimeout: silenceMs,
        dispatcher: agent,
      });
      const header = (name: string): string | undefined => [answer.headers[name] ?? []].flat()[0];
      return { status: answer.statusCode, header, body: answer.body, url };
    } catch (error) {
      signal.throwIfAborted();
      throw refusalIn(error) ?? unreachableHost(url.host, "the source", error);
    }
  }

  return {
    /**
     * Follows redirects under the same rules, unless `follows` is false; `authorization` is sent only to the first origin. Throws
     * WeightsError.
     */
    async open(
      first: URL,
      headers: Readonly<Record<string, string>>,
      authorization: string | undefined,
      signal: AbortSignal,
      { follows = true, method = "GET" }: { readonly follows?: boolean; readonly method?: "GET" | "HEAD" } = {},
    ) {
      let url = readPublicUrl(first.href, rules);
      for (let hops = 0; ; hops++) {
        const token = authorization === undefined || url.origin !== first.origin ? {} : { authorization };
        const answer = await ask(method, url, { ...headers, ...token }, signal);
        const location = answer.status >= 300 && answer.status < 400 ? answer.header("location") : undefined;
        if (location === undefined || !follows) return answer;
        answer.body.on("error", () => {}).destroy();
        if (hops >= maxRedirects) throw refused("it redirects again and again");
        if (!URL.canParse(location, url)) throw refused("it redirects to what is no URL");
        url = readPublicUrl(new URL(location, url).href, rules);
      }
    },
    close: () => agent.destroy(),
  };
}

/** Error code of one attempt, or of the first of several. */
function refusalIn(error: unknown): WeightsError | undefined {
  if (error instanceof WeightsError) return error;
  const { cause, errors } = (error ?? {}) as { cause?: unknown; errors?: unknown };
  const inner = [cause, ...(Array.isArray(errors) ? errors : [])].filter((one) => one !== undefined);
  return inner.map(refusalIn).find((one) => one !== undefined);
}

const notPublic = () => refused("its host is not a public address");

function refused(why: string): WeightsError {
  const text = `The URL is not fetched from: ${why}. Use a public https:// address.`;
  return new WeightsError("source_refused", text, { retryable: false });
}
