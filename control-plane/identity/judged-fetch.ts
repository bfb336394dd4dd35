// Requests to identity providers: only to addresses that are allowed, without redirects, bounded in time and bytes. The metadata
// of a provider names further URLs, so each is judged by itself.
import { Client } from "undici";
import { bareHost } from "../../proto/address-rules.ts";
import type { MayBePlain } from "../plain-hosts.ts";
import { bounded, connectorTo } from "../webhooks/send.ts";
import { createTargets, type Targets } from "../webhooks/target.ts";

export const fetchLimits = { connectMs: 3_000, totalMs: 8_000, maxBytes: 256 * 1024 };

/** A part of `fetch`, as openid-client and jose call it. */
export type JudgedFetch = (url: string, options?: RequestInit) => Promise<Response>;

export interface OutboundRules {
  /** Networks that are never called. */
  readonly blocked: readonly string[];
  /** Hosts that may have private addresses and plain HTTP. */
  readonly mayBePlain: MayBePlain;
}

/**
 * `trusted`: host that an operator named, which may have private addresses, by HTTPS. A host that a customer or a provider's
 * metadata names must be public.
 */
export function createJudgedFetch({ blocked, mayBePlain }: OutboundRules) {
  const anywhere = createTargets({ allowsPrivate: true, blocked });
  const inPublic = createTargets({ allowsPrivate: false, blocked });

  function targetsOf(url: URL, trusted: string | undefined): Targets {
    if (mayBePlain(bareHost(url.hostname))) return anywhere;
    return url.protocol === "https:" && url.hostname === trusted ? anywhere : inPublic;
  }

  return {
    /** True for HTTPS, and for a host that may use plain HTTP. Does not use the network. */
    mayFetch: (url: URL): boolean =>
      url.protocol === "https:" || (url.protocol === "http:" && mayBePlain(bareHost(url.hostname))),
    isPlain: (url: URL): boolean => url.protocol === "http:" && mayBePlain(bareHost(url.hostname)),

    /** Throws WebhookRefused or BadWebhookUrl for a URL that is never called. Does not use the network. */
    to:
      (trusted: string | undefined): JudgedFetch =>
      async (text, options = {}) => {
        const url = new URL(text);
        const targets = targetsOf(url, trusted);
        const limit = AbortSignal.timeout(fetchLimits.totalMs);
        const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
        const destination = await bounded(targets.locate(url.href), signal);
        const client = new Client(url.origin, {
          connect: connectorTo({ targets }, destination, fetchLimits.connectMs),
          headersTimeout: fetchLimits.totalMs,
          bodyTimeout: fetchLimits.totalMs,
        });
        try {
          const { statusCode, headers, body } = await client.request({
            method: (options.method ?? "GET") as "GET" | "POST",
            path: url.pathname + url.search,
            headers: Object.fromEntries(new Headers(options.headers)),
            body: options.body == null ? null : String(options.body),
            signal,
          });
          const bytes = await readUpTo(body, fetchLimits.maxBytes);
          const type = headers["content-type"];
          return new Response(statusCode === 204 || statusCode === 304 ? null : bytes, {
            status: statusCode,
            headers: typeof type === "string" ? { "content-type": type } : {},
          });
        } finally {
          client.destroy().catch(() => {});
        }
      },
  };
}

export type JudgedFetches = ReturnType<typeof createJudgedFetch>;

async function readUpTo(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of body) {
    bytes += part.length;
    if (bytes > maxBytes) throw new Error(`the response exceeds ${maxBytes} bytes`);
    parts.push(part);
  }
  return new Uint8Array(Buffer.concat(parts));
}
