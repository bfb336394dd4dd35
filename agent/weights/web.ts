// HTTP for downloads: connect and stall limits, the operator's proxy, and redirects that carry no credentials to another
// origin and never lead from a public host into its own network, nor from any host into this machine.
import type { Readable } from "node:stream";
import { type Dispatcher, EnvHttpProxyAgent, request } from "undici";
import { guardedLookup, type Reach, RedirectRefused, reachOf, refuseBeyond } from "../../proto/redirect-reach.ts";
import { unreachableHost, WeightsError } from "./weights-error.ts";

const connectLimitMs = 10_000;
const silenceLimitMs = 10_000;
const textLimitMs = 30_000;
const maxRedirects = 5;

export interface WebRequest {
  readonly method: "GET" | "HEAD";
  readonly url: URL;
  /** Address of the page that named `url`: `url` is then checked like a redirect of that page. */
  readonly namedBy?: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent to the origin of `url` only. */
  readonly authorization: string | undefined;
  /** `relative` leaves a redirect to another host to the caller: its headers describe the file. `none` leaves every one. */
  readonly follow: "all" | "relative" | "none";
  readonly setting: string;
  /** Maximum wait for a reply, and between two pieces of its body; 10 s by default. */
  readonly silenceMs?: number;
  /** For a host of our own installation: uses this connection without the operator's proxy, and follows no redirect. */
  readonly direct?: Dispatcher;
}

export interface WebAnswer {
  readonly status: number;
  header(name: string): string | undefined;
  /** Must be read to its end or destroyed. */
  readonly body: Readable;
  readonly url: URL;
}

export type Web = ReturnType<typeof createWeb>;

/** `silenceMs`: default of requests without their own limit (HF_HUB_DOWNLOAD_TIMEOUT). */
export function createWeb(options: { readonly silenceMs?: number } = {}) {
  const silenceMs = options.silenceMs ?? silenceLimitMs;
  // These read HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
  const through = (reach: Reach | undefined) =>
    new EnvHttpProxyAgent({
      connect: { timeout: connectLimitMs, ...(reach ? { lookup: guardedLookup(reach) } : {}) },
    });
  const dispatchers: Readonly<Record<"open" | Reach, Dispatcher>> = {
    open: through(undefined),
    outside: through("outside"),
    notHere: through("notHere"),
  };

  async function ask(one: WebRequest, url: URL, isRedirected: boolean, signal: AbortSignal): Promise<WebAnswer> {
    const asked = one.namedBy ?? (isRedirected ? one.url : undefined);
    const reach = asked && (await reachOf(asked, url));
    const isSameOrigin = url.origin === one.url.origin;
    const headers: Record<string, string> = { "user-agent": "stoker-agent", "accept-encoding": "identity" };
    if (one.authorization !== undefined && isSameOrigin) headers["authorization"] = one.authorization;
    try {
      if (reach) refuseBeyond(reach, url);
      const answer = await request(url, {
        method: one.method,
        headers: { ...headers, ...one.headers },
        signal,
        headersTimeout: one.silenceMs ?? silenceMs,
        bodyTimeout: one.silenceMs ?? silenceMs,
        dispatcher: one.direct ?? dispatchers[reach ?? "open"],
      });
      const header = (name: string): string | undefined => [answer.headers[name] ?? []].flat()[0];
      return { status: answer.statusCode, header, body: answer.body, url };
    } catch (error) {
      signal.throwIfAborted();
      throw refusalIn(error) ?? unreachableHost(url.host, one.setting, error);
    }
  }

  return {
    /** Throws `hub_unreachable` without a reply; any status is a reply. */
    async open(one: WebRequest, signal: AbortSignal) {
      let url = one.url;
      for (let hops = 0; ; hops++) {
        const answer = await ask(one, url, hops > 0, signal);
        const location = answer.status >= 300 && answer.status < 400 ? answer.header("location") : undefined;
        if (location === undefined || one.direct || one.follow === "none") return answer;
        const next = URL.canParse(location, url) ? new URL(location, url) : undefined;
        if (one.follow === "relative" && next?.origin !== url.origin) return answer;
        answer.body.on("error", () => {}).destroy();
        if (!next || !/^https?:$/.test(next.protocol) || (url.protocol === "https:" && next.protocol === "http:"))
          throw failed(`${url.host} redirects to an address that cannot be used`);
        if (hops >= maxRedirects) throw failed(`${url.host} redirects in a circle`);
        url = next;
      }
    },
    /** Returns the whole body of a small reply. Throws `hub_failed` above `limitBytes`, `hub_unreachable` when it takes longer. */
    async text(answer: WebAnswer, limitBytes: number, limitMs = textLimitMs) {
      const chunks: Buffer[] = [];
      let size = 0;
      const late = Object.assign(new Error("the answer takes too long"), { code: "UND_ERR_BODY_TIMEOUT" });
      const timer = setTimeout(() => answer.body.destroy(late), limitMs);
      try {
        for await (const chunk of answer.body as AsyncIterable<Buffer>) {
          size += chunk.length;
          if (size > limitBytes) throw failed(`${answer.url.host} answered with an unreasonably long list`);
          chunks.push(chunk);
        }
      } catch (error) {
        if (error instanceof WeightsError) throw error;
        throw unreachableHost(answer.url.host, "the source", error);
      } finally {
        clearTimeout(timer);
      }
      return Buffer.concat(chunks).toString("utf8");
    },
    async close() {
      await Promise.all(Object.values(dispatchers).map((one) => one.destroy()));
    },
  };
}

function refusalIn(error: unknown): WeightsError | undefined {
  if (error instanceof WeightsError) return error;
  return error instanceof RedirectRefused
    ? new WeightsError("hub_failed", error.message, { retryable: false })
    : undefined;
}

function failed(what: string): WeightsError {
  return new WeightsError("hub_failed", `${what}: try again later, or use another source.`, { retryable: true });
}
