// Addresses that a public host must not send a download to: this machine, its network, and cloud metadata.
import { type LookupAddress, type LookupOptions, lookup } from "node:dns";
import { lookup as lookupOnce } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import { WeightsError } from "./weights-error.ts";

const inward = new BlockList();
for (const [net, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
] as const)
  inward.addSubnet(net, bits, "ipv4");
for (const [net, bits] of [
  ["::", 127],
  ["64:ff9b::", 96],
  ["fc00::", 7],
  ["fe80::", 10],
  ["ff00::", 8],
] as const)
  inward.addSubnet(net, bits, "ipv6");

/** This machine itself, the metadata services of clouds, and what only this link knows. */
const here = new BlockList();
for (const [net, bits] of [
  ["0.0.0.0", 8],
  ["100.100.100.200", 32],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["192.0.0.192", 32],
  ["224.0.0.0", 3],
] as const)
  here.addSubnet(net, bits, "ipv4");
for (const [net, bits] of [
  ["::", 127],
  ["fd00:ec2::", 32],
  ["fe80::", 10],
  ["ff00::", 8],
] as const)
  here.addSubnet(net, bits, "ipv6");

/** Where a redirect must not lead: anywhere inside (`outside`), or to this machine and the like (`notHere`). */
export type Reach = "outside" | "notHere";
const forbidden: Readonly<Record<Reach, BlockList>> = { outside: inward, notHere: here };

/**
 * A public hub sends its downloads outside only. A mirror in the operator's own network may send them on inside it, but to
 * this machine only where it is itself this machine. Undefined: the host that was asked, which the operator named.
 */
export async function reachOf(asked: URL, to: URL): Promise<Reach | undefined> {
  if (to.hostname === asked.hostname) return undefined;
  return (await isOwnNetwork(asked.hostname)) ? "notHere" : "outside";
}

/** True when the host is, or resolves to, an address of this machine or its network. */
export async function isOwnNetwork(hostname: string): Promise<boolean> {
  const host = bare(hostname);
  if (isIP(host)) return isIn(inward, host);
  // A name that does not resolve here is left to the proxy, which is outside of this network's reach or the operator's own.
  const found = await lookupOnce(host, { all: true }).catch(() => []);
  return found.some(({ address }) => isIn(inward, address));
}

/** Node calls no `lookup` for an address written as such, so that form is checked here. */
export function refuseBeyond(reach: Reach, url: URL): void {
  const host = bare(url.hostname);
  if (isIP(host) && isIn(forbidden[reach], host)) throw refused(host);
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
      if (found.some(({ address }) => isIn(forbidden[reach], address))) return done(refused(hostname), []);
      const first = found[0];
      if (options.all || !first) return done(null, found);
      return done(null, first.address, first.family);
    });
  };
}

function isIn(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, "");
}

function refused(host: string): WeightsError {
  const text = `The hub redirects to ${host}, an address inside this machine's own network, which is refused: use a hub that serves its files from a public address.`;
  return new WeightsError("hub_failed", text, { retryable: false });
}
