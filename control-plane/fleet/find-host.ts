// Operators name a host by its id, or by its name where that is one host's alone. Pure.
import type { HostId } from "../../proto/ids.ts";
import { NodeNameShared } from "./errors.ts";
import type { HostRecord } from "./host.ts";

/**
 * An id that no host has comes back as it is: it may be one that joined and opened no session yet. Throws NodeNameShared
 * where several hosts have the name.
 */
export function hostNamed(hosts: readonly Pick<HostRecord, "id" | "hostname">[], idOrName: string): HostId {
  if (hosts.some((host) => host.id === idOrName)) return idOrName as HostId;
  const named = hosts.filter((host) => host.hostname === idOrName);
  if (named.length > 1)
    throw new NodeNameShared(
      idOrName,
      named.map((host) => host.id),
    );
  return named[0]?.id ?? (idOrName as HostId);
}
