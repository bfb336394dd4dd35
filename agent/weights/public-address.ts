// Which addresses a customer's URL may be fetched from: public ones, of either family. The control plane's webhooks go by the
// same lists (test/unit/agent/weights/public-address.test.ts compares the verdicts). Pure.
import { BlockList, isIP } from "node:net";
import { embeddingNetworks, metadataServices, neverNetworks, privateNetworks } from "../../proto/special-networks.ts";

/** Of networks in CIDR. */
export function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    list.addSubnet(address, Number(bits), isIP(address) === 6 ? "ipv6" : "ipv4");
  }
  return list;
}

const ownNetworks = listOf(privateNetworks);
const never = listOf([...metadataServices, ...neverNetworks]);
/** Loopback alone in it is of use. */
const dead = listOf(embeddingNetworks);

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
