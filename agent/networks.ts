// Networks as an operator writes them. Pure.
import { BlockList, isIP } from "node:net";

/** Addresses and networks with commas between, in CIDR; undefined where one of them is none. */
export function networksIn(text: string): readonly string[] | undefined {
  const given = text.split(",").map((entry) => entry.trim());
  const networks = given.filter((entry) => entry !== "").map(inCidr);
  return networks.every(isNetwork) ? networks : undefined;
}

function inCidr(entry: string): string {
  const family = isIP(entry);
  return family === 0 ? entry : `${entry}/${family === 6 ? 128 : 32}`;
}

function isNetwork(entry: string): boolean {
  const [, address = "", bits] = /^([^/]+)\/(\d{1,3})$/.exec(entry) ?? [];
  try {
    new BlockList().addSubnet(address, Number(bits), isIP(address) === 6 ? "ipv6" : "ipv4");
    return true;
  } catch {
    return false;
  }
}
