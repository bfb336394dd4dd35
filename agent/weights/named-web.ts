// Requests to addresses that deployments name: origins of the operator's own network that the agent's settings list, and
// public ones.
import type { AddressRules } from "../../proto/address-rules.ts";
import { bareHost, isLoopbackHost } from "../../proto/address-rules.ts";
import { type PublicWeb, readPublicUrl } from "./public-web.ts";
import type { Web, WebAnswer } from "./web.ts";

export interface NamedRequest {
  readonly method: "GET" | "HEAD";
  readonly headers: Readonly<Record<string, string>>;
  /** Sent to the origin of the URL only. */
  readonly authorization: string | undefined;
  /** False: a redirect is the reply. */
  readonly follows: boolean;
  /** Treats the URL as a public one although the operator's settings list its origin. */
  readonly isPublic?: boolean;
}

export type NamedWeb = ReturnType<typeof createNamedWeb>;

/** `trusted`: origins that the operator allows whatever their address. Names the setting of them in errors. */
export function createNamedWeb(web: Web, publicWeb: PublicWeb, rules: AddressRules, trusted: readonly string[]) {
  const origins = new Set(trusted);
  return {
    /** Throws `source_refused` for an address that is not allowed, `hub_unreachable` without a reply. */
    open(
      url: URL,
      { method, headers, authorization, follows, isPublic }: NamedRequest,
      signal: AbortSignal,
    ): Promise<WebAnswer> {
      if (isPublic || !origins.has(url.origin))
        return publicWeb.open(url, headers, authorization, signal, { follows, method });
      const follow = follows ? "all" : "none";
      return web.open({ method, url, headers, authorization, follow, setting: originsSetting }, signal);
    },
    isTrusted: (origin: string): boolean => origins.has(origin),
    /** Throws `source_refused` at once for an origin that is never allowed. */
    check(origin: string): void {
      if (!origins.has(origin)) readPublicUrl(origin, rules);
    },
    /** Origin of a host: the operator's setting may name it with http; otherwise https, and http on this machine. */
    originOf(host: string): string {
      const plain = `http://${host}`;
      if (origins.has(new URL(plain).origin)) return plain;
      return isLoopbackHost(bareHost(new URL(plain).hostname)) ? plain : `https://${host}`;
    },
    text: web.text,
  };
}

/** Setting of the agent that lists origins of the operator's own network. */
export const originsSetting = "STOKER_WEIGHTS_ORIGINS";
