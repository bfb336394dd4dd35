// HTTP for downloads: connect and stall limits, the operator's proxy, and redirects that carry no credentials to another
// origin and never lead from a public host into this machine's own network.
import type { Readable } from "node:stream";
import { EnvHttpProxyAgent, request } from "undici";
import { guardedLookup, isOwnNetwork, refuseInward } from "./own-network.ts";
import { unreachableHost, WeightsError } from "./weights-error.ts";

const connectLimitMs = 10_000;
const silenceLimitMs = 30_000;
const maxRedirects = 5;

export interface WebRequest {
  readonly method: "GET" | "HEAD";
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent to the origin of `url` only. */
  readonly authorization: string | undefined;
  /** `relative` leaves a redirect to another host to the caller: its headers describe the file. */
  readonly follow: "all" | "relative";
  /** The setting that names another source, for the error text. */
  readonly setting: string;
}

export interface WebAnswer {
  readonly status: number;
  header(name: string): string | undefined;
  /** Must be read to its end or destroyed. */
  readonly body: Readable;
  readonly url: URL;
}

export interface Web {
  /** Throws `hub_unreachable` when no answer comes; any status is an answer. */
  open(request: WebRequest, signal: AbortSignal): Promise<WebAnswer>;
  /** The whole body of a small answer. Throws `hub_failed` above `limitBytes`. */
  text(answer: WebAnswer, limitBytes: number): Promise<string>;
  close(): Promise<void>;
}

export function createWeb(): Web {
  // Reads HTTP_PROXY, HTTPS_PROXY and NO_PROXY as every download tool does.
  const limits = { headersTimeout: silenceLimitMs, bodyTimeout: silenceLimitMs };
  const open = new EnvHttpProxyAgent({ ...limits, connect: { timeout: connectLimitMs } });
  const guarded = new EnvHttpProxyAgent({ ...limits, connect: { timeout: connectLimitMs, lookup: guardedLookup } });

  async function ask(one: WebRequest, url: URL, isRedirected: boolean, signal: AbortSignal): Promise<WebAnswer> {
    // A mirror in the operator's own network may send us on inside it; a public hub may not.
    const isGuarded = isRedirected && !(await isOwnNetwork(one.url.hostname));
    if (isGuarded) refuseInward(url);
    const isSameOrigin = url.origin === one.url.origin;
    const headers: Record<string, string> = { "user-agent": "stoker-agent", "accept-encoding": "identity" };
    if (one.authorization !== undefined && isSameOrigin) headers["authorization"] = one.authorization;
    try {
      const answer = await request(url, {
        method: one.method,
        headers: { ...headers, ...one.headers },
        signal,
        dispatcher: isGuarded ? guarded : open,
      });
      const header = (name: string): string | undefined => [answer.headers[name] ?? []].flat()[0];
      return { status: answer.statusCode, header, body: answer.body, url };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof WeightsError) throw error;
      throw unreachableHost(url.host, one.setting, error);
    }
  }

  return {
    async open(one, signal) {
      let url = one.url;
      for (let hops = 0; ; hops++) {
        const answer = await ask(one, url, hops > 0, signal);
        const location = answer.status >= 300 && answer.status < 400 ? answer.header("location") : undefined;
        if (location === undefined) return answer;
        const next = URL.canParse(location, url) ? new URL(location, url) : undefined;
        if (one.follow === "relative" && next?.origin !== url.origin) return answer;
        answer.body.on("error", () => {}).destroy();
        if (!next || !/^https?:$/.test(next.protocol) || (url.protocol === "https:" && next.protocol === "http:"))
          throw failed(`${url.host} redirects to an address that cannot be used`);
        if (hops >= maxRedirects) throw failed(`${url.host} redirects in a circle`);
        url = next;
      }
    },
    async text(answer, limitBytes) {
      const chunks: Buffer[] = [];
      let size = 0;
      try {
        for await (const chunk of answer.body as AsyncIterable<Buffer>) {
          size += chunk.length;
          if (size > limitBytes) throw failed(`${answer.url.host} answered with an unreasonably long list`);
          chunks.push(chunk);
        }
      } catch (error) {
        if (error instanceof WeightsError) throw error;
        throw unreachableHost(answer.url.host, "the source", error);
      }
      return Buffer.concat(chunks).toString("utf8");
    },
    async close() {
      await Promise.all([open.destroy(), guarded.destroy()]);
    },
  };
}

function failed(what: string): WeightsError {
  return new WeightsError("hub_failed", `${what}: try again later, or use another source.`, { retryable: true });
}
