// The addresses a key may be used from: single addresses and CIDR blocks. An IPv4 address written as IPv6
// (::ffff:10.0.0.1), which is how a dual-stack socket shows it, counts as the IPv4 address it is.
import { BlockList, isIP, isIPv4 } from "node:net";

const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const prefixForm = /^(0|[1-9]\d{0,2})$/;

interface Block {
  readonly address: string;
  readonly prefix: number;
  readonly family: "ipv4" | "ipv6";
}

/** Undefined when the text is neither an address nor a block. */
function blockOf(text: string): Block | undefined {
  const [written = "", prefix, ...more] = text.split("/");
  // A zone (fe80::1%eth0) names an interface of one machine.
  if (more.length > 0 || written.includes("%") || isIP(written) === 0) return undefined;
  const address = mapped.exec(written)?.[1] ?? written;
  const family = isIPv4(address) ? "ipv4" : "ipv6";
  const bits = family === "ipv4" ? 32 : 128;
  if (prefix === undefined) return { address, prefix: bits, family };
  if (!prefixForm.test(prefix)) return undefined;
  // The prefix of a mapped block counts from the start of the IPv6 form.
  const length = address === written ? Number(prefix) : Number(prefix) - 96;
  return length >= 0 && length <= bits ? { address, prefix: length, family } : undefined;
}

/** The first entry that is neither an address nor a CIDR block; undefined when all are. */
export const badAddress = (entries: readonly string[]): string | undefined =>
  entries.find((entry) => blockOf(entry) === undefined);

/** True if every address of `entries` is one of `of`. */
export function areWithin(entries: readonly string[], of: readonly string[]): boolean {
  const outer = of.flatMap((entry) => blockOf(entry) ?? []);
  return entries.every((entry) => {
    const block = blockOf(entry);
    return (
      block !== undefined &&
      outer.some(({ address, prefix, family }) => {
        const list = new BlockList();
        list.addSubnet(address, prefix, family);
        return family === block.family && prefix <= block.prefix && list.check(block.address, family);
      })
    );
  });
}

/** Undefined: any address. Invalid entries match nothing. */
export type AddressTest = ((ip: string) => boolean) | undefined;

export function addressTest(entries: readonly string[] | null): AddressTest {
  if (entries === null) return undefined;
  const list = new BlockList();
  for (const entry of entries) {
    const block = blockOf(entry);
    if (block) list.addSubnet(block.address, block.prefix, block.family);
  }
  return (ip) => {
    const address = mapped.exec(ip)?.[1] ?? ip.replace(/%.*$/, "");
    const version = isIP(address);
    return version !== 0 && list.check(address, version === 4 ? "ipv4" : "ipv6");
  };
}
