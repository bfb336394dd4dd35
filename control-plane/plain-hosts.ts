// Hosts on other machines that the operator allows to be reached over plain HTTP. Pure.
import { isIP } from "node:net";
import { bareHost, blockListOf } from "../proto/address-rules.ts";

/** Returns true for an allowed host name or address, with or without the brackets of IPv6. */
export type MayBePlain = (hostname: string) => boolean;

const nameForm = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i;

/** `entries`: addresses, networks in CIDR, and host names. Undefined when one is malformed. */
export function readPlainHosts(entries: readonly string[]): MayBePlain | undefined {
  const networks = entries.filter((entry) => isIP(entry.split("/")[0] ?? "") !== 0);
  const names = entries.filter((entry) => !networks.includes(entry));
  if (!names.every((name) => nameForm.test(name) && !/^[\d.]+$/.test(name))) return undefined;
  try {
    const list = blockListOf(networks);
    const known = new Set(names.map((name) => name.toLowerCase()));
    return (hostname) => {
      const bare = bareHost(hostname);
      const family = isIP(bare);
      return family === 0 ? known.has(bare.toLowerCase()) : list.check(bare, family === 6 ? "ipv6" : "ipv4");
    };
  } catch {
    return undefined;
  }
}
