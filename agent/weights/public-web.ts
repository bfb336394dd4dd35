// HTTP to an address that a customer chose: encrypted, to public addresses alone at every hop, past the operator's proxy, which
// may reach where a customer must not. The address that was checked is the one that is connected to, and it is looked at once
// more on the open socket.
import { lookup } from "node:dns";
import { isIP } from "node:net";
import { Agent, buildConnector, request } from "undici";
import { type AddressRules, isAddressAllowed } from "./public-address.ts";
import type { WebAnswer } from "./web.ts";
import { unreachableHost, WeightsError } from "./weights-error.ts";

export interface PublicWeb {
  /** Follows redirects under the same rules; `authorization` goes to the first origin alone. Throws WeightsError. */
  open(
    url: URL,
    headers: Readonly<Record<string, string>>,
    authorization: string | undefined,
    signal: AbortSignal,
  ): Promise<WebAnswer>;
  close(): Promise<void>;
}

/** `allowsPrivate`: also any port and plain http: for installations without an outside, and tests. */
export interface PublicWebOptions extends AddressRules {
  readonly silenceMs?: number;
}

const connectMs = 10_000;
const usualSilenceMs = 10_000;
const mostRedirects = 5;
const ports = new Set(["", "443", "8443"]);
const mostCharacters = 4096;

/** Throws WeightsError for a URL that is not fetched from, whatever its host resolves to. */
export function readPublicUrl(text: string, rules: AddressRules): URL {
  const { allowsPrivate } = rules;
  if (text.length > mostCharacters) throw refused(`it has more than ${mostCharacters} characters`);
  const url = URL.parse(text);
  if (!url || url.hostname === "") throw refused("it is no URL");
  if (url.protocol !== "https:" && !(url.protocol === "http:" && allowsPrivate))
    throw refused("it must begin with https://");
  if (!allowsPrivate && !ports.has(url.port)) throw refused("its port must be 443 or 8443");
  if (url.username !== "" || url.password !== "") throw refused("it holds a user or a password");
  const host = bare(url.hostname);
  if (isIP(host) && !isAddressAllowed(host, rules)) throw notPublic();
  return url;
}

export function createPublicWeb({ silenceMs = usualSilenceMs, ...rules }: PublicWebOptions): PublicWeb {
  const connect = buildConnector({
    timeout: connectMs,
    // Node asks nothing about an address that is written as such: readPublicUrl has looked at that.
    lookup: (hostname, options, done) =>
      lookup(hostname, { ...options, all: true }, (error, found) => {
        if (error) return done(error, []);
        // One bad address is enough: which of them a name answers with is its owner's choice, at every look.
        if (!found.every(({ address }) => isAddressAllowed(address, rules))) return done(notPublic(), []);
        const [first] = found;
        if (options.all || !first) return done(null, found);
        return done(null, first.address, first.family);
      }),
  });
  const agent = new Agent({
    connect: (options, done) =>
      connect(options, (...answer) => {
        const [error, socket] = answer;
        if (error || !socket || isAddressAllowed(socket.remoteAddress ?? "", rules)) return done(...answer);
        socket.destroy();
        return done(notPublic(), null);
      }),
  });

  async function ask(url: URL, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<WebAnswer> {
    try {
      const answer = await request(url, {
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
      throw refusalIn(error) ?? unreachableHost(url.host, "the adapter's source", error);
    }
  }

  return {
    async open(first, headers, authorization, signal) {
      let url = readPublicUrl(first.href, rules);
      for (let hops = 0; ; hops++) {
        const token = authorization === undefined || url.origin !== first.origin ? {} : { authorization };
        const answer = await ask(url, { ...headers, ...token }, signal);
        const location = answer.status >= 300 && answer.status < 400 ? answer.header("location") : undefined;
        if (location === undefined) return answer;
        answer.body.on("error", () => {}).destroy();
        if (hops >= mostRedirects) throw refused("it redirects again and again");
        if (!URL.canParse(location, url)) throw refused("it redirects to what is no URL");
        url = readPublicUrl(new URL(location, url).href, rules);
      }
    },
    close: () => agent.destroy(),
  };
}

const bare = (hostname: string) => hostname.replace(/^\[|\]$/g, "");

/** Of one attempt, or of the first of several. */
function refusalIn(error: unknown): WeightsError | undefined {
  if (error instanceof WeightsError) return error;
  const { cause, errors } = (error ?? {}) as { cause?: unknown; errors?: unknown };
  const inner = [cause, ...(Array.isArray(errors) ? errors : [])].filter((one) => one !== undefined);
  return inner.map(refusalIn).find((one) => one !== undefined);
}

const notPublic = () => refused("its host is not a public address");

function refused(why: string): WeightsError {
  const text = `The adapter's URL is not fetched from: ${why}. Give an https:// address that anybody can reach.`;
  return new WeightsError("source_refused", text, { retryable: false });
}
