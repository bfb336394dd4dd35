// Requests to identity providers: only to addresses that are allowed, without redirects, bounded in time and bytes. The metadata
// of a provider names further URLs, so each is judged by itself.
import { Client } from "undici";
import { bounded, connectorTo } from "../webhooks/send.ts";
import { createTargets, type Targets } from "../webhooks/target.ts";

export const fetchLimits = { connectMs: 3_000, totalMs: 8_000, maxBytes: 256 * 1024 };

/** A part of `fetch`, as openid-client and jose call it. */
export type JudgedFetch = (url: string, options?: RequestInit) => Promise<Response>;

export interface JudgedFetchRules {
  /** Networks that are never called. */
  readonly blocked: readonly string[];
  /** True for a URL whose host may have private addresses and plain HTTP. */
  readonly mayBePlain: (url: URL) => boolean;
}

/**
 * `trusted`: host that an operator named, which may have private addresses, by HTTPS. A host that a customer or a provider's
 * metadata names must be public.
 */
export function createJudgedFetch({ blocked, mayBePlain }: JudgedFetchRules) {
  const anywhere = createTargets({ allowsPrivate: true, blocked });
  const inPublic = createTargets({ allowsPrivate: false, blocked });

  function targetsOf(url: URL, trusted: string | undefined): Targets {
    if (mayBePlain(url)) return anywhere;
    return url.protocol === "https:" && url.hostname === trusted ? anywhere : inPublic;
  }

  return {
    isPlain: (url: URL): boolean => url.protocol === "http:" && mayBePlain(url),

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

/**
 * Requests to issuers that customers name: to public addresses by HTTPS. Issuers that the operator lists in `exempt`, exactly as in
 * a token's `iss`, may be elsewhere, and so may their keys at the origin of any of them.
 */
export function createIssuerFetch({
  blocked,
  exempt,
}: {
  readonly blocked: readonly string[];
  readonly exempt: readonly string[];
}) {
  const origins = new Set(exempt.map((issuer) => new URL(issuer).origin));
  const inPublic = createJudgedFetch({ blocked, mayBePlain: () => false }).to(undefined);
  const listed = createJudgedFetch({ blocked, mayBePlain: ({ origin }) => origins.has(origin) }).to(undefined);
  return {
    /** True if a rule may name this issuer. Does not use the network. */
    mayName: (issuer: string): boolean => URL.parse(issuer)?.protocol === "https:" || exempt.includes(issuer),
    to: (issuer: string): JudgedFetch => (exempt.includes(issuer) ? listed : inPublic),
  };
}

export type IssuerFetch = ReturnType<typeof createIssuerFetch>;

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
