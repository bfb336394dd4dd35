// Which addresses a webhook may be called at. Pure.
import ipaddr from "ipaddr.js";
import { embeddingNetworks, metadataServices, neverNetworks, privateNetworks } from "../../proto/special-networks.ts";

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

const own = networks(privateNetworks);
const metadata = networks(metadataServices);
const never = networks([...neverNetworks, ...embeddingNetworks]);

const isIn = (address: ipaddr.IPv4 | ipaddr.IPv6, list: readonly Network[]): boolean =>
  list.some(([network, bits]) => network.kind() === address.kind() && address.match([network, bits] as never));

/** Answers for literals of either family; an IPv4 address inside ::ffff:0:0/96 is that IPv4 address. */
export function addressTest(rules: AddressRules): (address: string) => boolean {
  const blocked = networks(rules.blocked);
  return (text) => {
    if (!ipaddr.isValid(text)) return false;
    const address = ipaddr.process(text);
    if (isIn(address, blocked) || isIn(address, metadata)) return false;
    if (isIn(address, own)) return rules.allowsPrivate;
    return !isIn(address, never);
  };
}
