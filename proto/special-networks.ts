// Networks that no customer may have us call, in CIDR: webhooks are called by control planes, URLs of adapters by agents, and
// what is open to one must not be open to the other.

/** Loopback and the networks of RFC 1918, 6598 and 4193: an operator may allow them. */
export const privateNetworks: readonly string[] = [
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "::1/128",
  "fc00::/7",
];

/** Inside private networks, and yet never a receiver: metadata services of AWS, Google Cloud and Alibaba Cloud. */
export const metadataServices: readonly string[] = ["100.100.100.200/32", "fd00:ec2::254/128", "fd20:ce::254/128"];

/** Nobody's server, or somebody's metadata service. */
export const neverNetworks: readonly string[] = [
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
];

/** The unspecified address and those that hold an IPv4 address in a form that is long dead. */
export const embeddingNetworks: readonly string[] = ["::/96"];
