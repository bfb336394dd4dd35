// Judges an IP address before anything connects to it. Pure.
import { BlockList, isIP, SocketAddress } from "node:net";
import { globalUnicastIpv6, type SpecialKind, specialNetworks } from "./special-networks.ts";

export type AddressKind = "public" | SpecialKind;

export interface AddressRules {
  /** Loopback and private networks are allowed: for installations without internet access. */
  readonly allowsPrivate: boolean;
  /** Addresses and networks in CIDR that the operator blocks, whatever else is allowed. */
  readonly blocked: readonly string[];
}

/** Most specific first: the first row that contains an address decides. */
const rows = specialNetworks
  .map(({ network, kind }) => ({ kind, bits: Number(network.split("/")[1]), list: blockListOf([network]) }))
  .toSorted((a, b) => b.bits - a.bits);
const globalIpv6 = blockListOf([globalUnicastIpv6]);

/** Returns a predicate for IP addresses as text, of either family. Anything else is refused, as is an address with a zone. */
export function addressTest(rules: AddressRules): (address: string) => boolean {
  const blocked = blockListOf(rules.blocked);
  return (text) => {
    const address = parse(text);
    if (!address || blocked.check(address)) return false;
    const kind = kindOf(address);
    return kind === "public" || (rules.allowsPrivate && (kind === "private" || kind === "loopback"));
  };
}

/** Undefined when `text` is not an IP address, or has a zone. An IPv4-mapped IPv6 address is judged as its IPv4 address. */
export function addressKind(text: string): AddressKind | undefined {
  const address = parse(text);
  return address && kindOf(address);
}

/** True for `localhost` and loopback addresses, with or without the brackets of a URL. */
export function isLoopbackHost(host: string): boolean {
  return host === "localhost" || addressKind(bareHost(host)) === "loopback";
}

/** Host of a URL without the brackets of an IPv6 address. */
export const bareHost = (hostname: string): string => hostname.replace(/^\[|\]$/g, "");

/** `networks`: addresses, or networks in CIDR. Throws when one is neither. */
export function blockListOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const text of networks) {
    const [, address, bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
    if (address === undefined) throw new RangeError(`Not an address or a network in CIDR: ${text}`);
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    list.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
  }
  return list;
}

/** Sockets of a dual-stack host connect to `::ffff:a.b.c.d` over IPv4. */
function parse(text: string): SocketAddress | undefined {
  const family = isIP(text);
  if (family === 0 || text.includes("%")) return undefined;
  if (family === 4) return new SocketAddress({ address: text, family: "ipv4" });
  const address = new SocketAddress({ address: text, family: "ipv6" });
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address.address) ?? [];
  return mapped === undefined ? address : new SocketAddress({ address: mapped, family: "ipv4" });
}

function kindOf(address: SocketAddress): AddressKind {
  const special = rows.find(({ list }) => list.check(address));
  if (special) return special.kind;
  return address.family === "ipv6" && !globalIpv6.check(address) ? "reserved" : "public";
}
