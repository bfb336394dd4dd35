// Addresses that a hub or package index must not send a download to: this machine, its network, and metadata services of clouds.
import { type LookupAddress, type LookupOptions, lookup } from "node:dns";
import { lookup as lookupOnce } from "node:dns/promises";
import { isIP } from "node:net";
import { type AddressKind, addressKind, bareHost } from "./address-rules.ts";

/** Addresses a redirect may lead to: public ones (`outside`), or also private and reserved networks (`notHere`). */
export type Reach = "outside" | "notHere";

const allowed: Readonly<Record<Reach, ReadonlySet<AddressKind | undefined>>> = {
  outside: new Set(["public"]),
  notHere: new Set(["public", "private", "reserved"]),
};

export class RedirectRefused extends Error {
  override readonly name = "RedirectRefused";

  constructor(host: string) {
    super(
      `The hub redirects to ${host}, an address inside this machine's own network, which is refused: use a hub that serves ` +
        "its files from a public address.",
    );
  }
}

/**
 * A public hub redirects to public addresses only. A mirror in the operator's network may redirect inside that network, and to
 * this machine only when the mirror itself runs here. Undefined: the host the operator named, which is always allowed.
 */
export async function reachOf(asked: URL, to: URL): Promise<Reach | undefined> {
  if (to.hostname === asked.hostname) return undefined;
  return (await isOwnNetwork(asked.hostname)) ? "notHere" : "outside";
}

/** True when the host is, or resolves to, an address that is not public. */
export async function isOwnNetwork(hostname: string): Promise<boolean> {
  const host = bareHost(hostname);
  if (isIP(host)) return addressKind(host) !== "public";
  // A name that does not resolve here is left to the proxy, which is outside this network or run by the operator.
  const found = await lookupOnce(host, { all: true }).catch(() => []);
  return found.some(({ address }) => addressKind(address) !== "public");
}

/** Node calls no `lookup` for a host that is an IP address. Throws RedirectRefused for one outside `reach`. */
export function refuseBeyond(reach: Reach, url: URL): void {
  const host = bareHost(url.hostname);
  if (isIP(host) && !allowed[reach].has(addressKind(host))) throw new RedirectRefused(host);
}

/** For `connect.lookup`: the address that was checked is the one that is connected to. */
export function guardedLookup(reach: Reach) {
  return (
    hostname: string,
    options: LookupOptions,
    done: (error: Error | null, address: string | LookupAddress[], family?: number) => void,
  ): void => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return done(error, []);
      if (!found.every(({ address }) => allowed[reach].has(addressKind(address))))
        return done(new RedirectRefused(hostname), []);
      const first = found[0];
      if (options.all || !first) return done(null, found);
      return done(null, first.address, first.family);
    });
  };
}
