// Finds a host by its id, or by its name if unique. Pure.
import type { HostId } from "../../proto/ids.ts";
import { nodeNameShared } from "./errors.ts";
import type { HostRecord } from "./host.ts";

/**
 * An unknown id is returned unchanged: it may belong to a host that joined without a session yet. Throws nodeNameShared when
 * several hosts have the name.
 */
export function hostNamed(hosts: readonly Pick<HostRecord, "id" | "hostname">[], idOrName: string): HostId {
  if (hosts.some((host) => host.id === idOrName)) return idOrName as HostId;
  const named = hosts.filter((host) => host.hostname === idOrName);
  if (named.length > 1)
    throw nodeNameShared(
      idOrName,
      named.map((host) => host.id),
    );
  return named[0]?.id ?? (idOrName as HostId);
}
