// Which addresses a webhook may be called at. Pure.
import ipaddr from "ipaddr.js";

export interface AddressRules {
  /** Loopback and the networks of RFC 1918, 6598 and 4193, and plain http: for installations without an outside. */
  readonly allowsPrivate: boolean;
  /** The operator's own, in CIDR: blocked whatever else is allowed. */
  readonly blocked: readonly string[];
}

type Network = readonly [ipaddr.IPv4 | ipaddr.IPv6, number];

const networks = (texts: readonly string[]): readonly Network[] =>
  texts.map((text) => {
    if (text.includes("/")) return ipaddr.parseCIDR(text);
    const address = ipaddr.process(text);
    return [address, address.kind() === "ipv6" ? 128 : 32];
  });

const privateNetworks = networks([
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "::1/128",
  "fc00::/7",
]);

/** Inside private networks, and yet never a receiver: metadata services of AWS, Google Cloud and Alibaba Cloud. */
const metadataServices = networks(["fd00:ec2::254", "fd20:ce::254", "100.100.100.200"]);

/** Nobody's receiver, or somebody's metadata service. */
const neverNetworks = networks([
  "0.0.0.0/8",
  "169.254.0.0/16",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
  // The unspecified address and those that hold an IPv4 address in a form that is long dead.
  "::/96",
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

const isIn = (address: ipaddr.IPv4 | ipaddr.IPv6, list: readonly Network[]): boolean =>
  list.some(([network, bits]) => network.kind() === address.kind() && address.match([network, bits] as never));

/** Answers for literals of either family; an IPv4 address inside ::ffff:0:0/96 is that IPv4 address. */
export function addressTest(rules: AddressRules): (address: string) => boolean {
  const own = networks(rules.blocked);
  return (text) => {
    if (!ipaddr.isValid(text)) return false;
    const address = ipaddr.process(text);
    if (isIn(address, own) || isIn(address, metadataServices)) return false;
    if (isIn(address, privateNetworks)) return rules.allowsPrivate;
    return !isIn(address, neverNetworks);
  };
}
