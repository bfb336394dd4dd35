// Which addresses a customer's URL may be fetched from: public ones, of either family. The control plane's webhooks go by the
// same list (test/unit/agent/weights/public-address.test.ts compares them). Pure.
import { BlockList, isIP } from "node:net";

/** Of networks in CIDR. */
export function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    list.addSubnet(address, Number(bits), isIP(address) === 6 ? "ipv6" : "ipv4");
  }
  return list;
}

/** Loopback and the networks of RFC 1918, 6598 and 4193. */
const ownNetworks = listOf([
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "::1/128",
  "fc00::/7",
]);

/** Nobody's server, or somebody's metadata service. */
const never = listOf([
  "0.0.0.0/8",
  "100.100.100.200/32",
  "169.254.0.0/16",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8",
  // Networks through which IPv6 reaches IPv4: NAT64, Teredo, 6to4.
  "64:ff9b::/96",
  "64:ff9b:1::/48",
  "2001::/32",
  "2002::/16",
  "2001:db8::/32",
  "100::/64",
]);
/** The unspecified address and IPv4 addresses in a form that is long dead; loopback alone in it is of use. */
const dead = listOf(["::/96"]);

export interface AddressRules {
  readonly allowsPrivate: boolean;
  /** The operator's own, whatever else is allowed. */
  readonly blocked?: BlockList | undefined;
}

/** Answers for literals of either family; an IPv4 address inside ::ffff:0:0/96 is that IPv4 address. */
export function isAddressAllowed(text: string, { allowsPrivate, blocked }: AddressRules): boolean {
  const address = plainAddress(text);
  const family = { 0: undefined, 4: "ipv4", 6: "ipv6" }[isIP(address)] as "ipv4" | "ipv6" | undefined;
  if (!family || address.includes("%") || never.check(address, family)) return false;
  if (blocked?.check(address, family)) return false;
  if (address !== "::1" && dead.check(address, family)) return false;
  return allowsPrivate || !ownNetworks.check(address, family);
}

/** A mapped IPv4 address as URLs write it. */
function plainAddress(text: string): string {
  const [, dotted, high, low] = /^::ffff:(?:(\d+\.\d+\.\d+\.\d+)|([0-9a-f]{1,4}):([0-9a-f]{1,4}))$/i.exec(text) ?? [];
  if (dotted !== undefined) return dotted;
  if (high === undefined || low === undefined) return text;
  const bits = Number.parseInt(high, 16) * 65_536 + Number.parseInt(low, 16);
  return [24, 16, 8, 0].map((shift) => (bits >>> shift) & 255).join(".");
}
