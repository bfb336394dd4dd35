// Networks that are not the public internet. One table for every component: webhooks, customers' URLs, hub redirects and the
// firewall of rentals derive from it.
//
// Sources: the IANA IPv4 and IPv6 Special-Purpose Address Registries (iana-ipv4-special-registry, iana-ipv6-special-registry), as
// of October 2025; the IANA registries of multicast addresses; RFC 3879 and RFC 4291 for deprecated forms; and the documentation of
// the named cloud providers. A row covers the more specific rows of the registry inside it, also those that IANA lists as
// globally reachable: no customer's server has such an address.

/**
 * - `loopback`: this machine.
 * - `private`: networks of an organisation. An operator may allow them.
 * - `local`: this link, metadata services of clouds, multicast, and addresses that are no destination.
 * - `embedding`: IPv6 forms that carry an IPv4 address. Translators decide where they lead.
 * - `reserved`: documentation, benchmarks and protocol assignments.
 */
export type SpecialKind = "loopback" | "private" | "local" | "embedding" | "reserved";

export interface SpecialNetwork {
  /** CIDR. */
  readonly network: string;
  readonly kind: SpecialKind;
  readonly name: string;
  /** RFC, registry or provider that reserves it. */
  readonly source: string;
}

const row = (network: string, kind: SpecialKind, name: string, source: string): SpecialNetwork => ({
  network,
  kind,
  name,
  source,
});

/** A more specific row wins over the network around it. */
export const specialNetworks: readonly SpecialNetwork[] = [
  row("0.0.0.0/8", "local", "this network", "RFC 791"),
  row("10.0.0.0/8", "private", "private use", "RFC 1918"),
  row("100.64.0.0/10", "private", "shared address space", "RFC 6598"),
  row("100.100.100.200/32", "local", "metadata service", "Alibaba Cloud"),
  row("127.0.0.0/8", "loopback", "loopback", "RFC 1122"),
  row("168.63.129.16/32", "local", "metadata and DNS of the platform (WireServer)", "Microsoft Azure"),
  row("169.254.0.0/16", "local", "link-local, with metadata services of most clouds", "RFC 3927"),
  row("172.16.0.0/12", "private", "private use", "RFC 1918"),
  row("192.0.0.0/24", "local", "IETF protocol assignments, with 192.0.0.192 of Oracle Cloud", "RFC 6890"),
  row("192.0.2.0/24", "reserved", "documentation (TEST-NET-1)", "RFC 5737"),
  row("192.31.196.0/24", "reserved", "AS112-v4", "RFC 7535"),
  row("192.52.193.0/24", "reserved", "AMT", "RFC 7450"),
  row("192.88.99.0/24", "reserved", "6to4 relay anycast, deprecated", "RFC 7526"),
  row("192.168.0.0/16", "private", "private use", "RFC 1918"),
  row("192.175.48.0/24", "reserved", "direct delegation AS112", "RFC 7534"),
  row("198.18.0.0/15", "reserved", "benchmarking", "RFC 2544"),
  row("198.51.100.0/24", "reserved", "documentation (TEST-NET-2)", "RFC 5737"),
  row("203.0.113.0/24", "reserved", "documentation (TEST-NET-3)", "RFC 5737"),
  row("224.0.0.0/4", "local", "multicast", "RFC 5771"),
  row("240.0.0.0/4", "local", "reserved, with limited broadcast", "RFC 1112"),

  row("::1/128", "loopback", "loopback", "RFC 4291"),
  row("::/128", "local", "unspecified", "RFC 4291"),
  row("::/96", "embedding", "IPv4-compatible, deprecated", "RFC 4291"),
  row("::ffff:0:0:0/96", "embedding", "IPv4-translated", "RFC 2765"),
  row("64:ff9b::/96", "embedding", "IPv4/IPv6 translation (NAT64)", "RFC 6052"),
  row("64:ff9b:1::/48", "embedding", "IPv4/IPv6 translation, local use", "RFC 8215"),
  row("100::/64", "reserved", "discard only", "RFC 6666"),
  row("100:0:0:1::/64", "reserved", "dummy prefix", "RFC 9780"),
  row("2001::/23", "reserved", "IETF protocol assignments: ORCHID, benchmarking, AMT, AS112, DRIP", "RFC 2928"),
  row("2001::/32", "embedding", "Teredo", "RFC 4380"),
  row("2001:db8::/32", "reserved", "documentation", "RFC 3849"),
  row("2002::/16", "embedding", "6to4", "RFC 3056"),
  row("2620:4f:8000::/48", "reserved", "direct delegation AS112", "RFC 7534"),
  row("3fff::/20", "reserved", "documentation", "RFC 9637"),
  row("5f00::/16", "reserved", "segment identifiers of SRv6", "RFC 9602"),
  row("fc00::/7", "private", "unique local", "RFC 4193"),
  row("fd00:42::42/128", "local", "metadata service", "Scaleway"),
  row("fd00:ec2::/32", "local", "metadata, DNS and time service", "Amazon Web Services"),
  row("fd20:ce::254/128", "local", "metadata service", "Google Cloud"),
  row("fe80::/10", "local", "link-local", "RFC 4291"),
  row("fec0::/10", "local", "site-local, deprecated", "RFC 3879"),
  row("ff00::/8", "local", "multicast", "RFC 4291"),
];

/** The only part of IPv6 that IANA allocates to networks of the internet (RFC 4291, ipv6-unicast-address-assignments). */
export const globalUnicastIpv6 = "2000::/3";
