// Lets an operator list, bill or discard quarantined usage records.

import type { HostId } from "../../proto/ids.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import type { Act } from "../act.ts";
import { conflict, DatabaseUnavailable, notFound } from "../service-error.ts";
import type { Quarantined, QuarantineHost, QuarantineStore } from "./quarantine-store.ts";
import { RefusedRecord } from "./record.ts";
import type { Settlement } from "./settle.ts";

export interface QuarantinePage {
  readonly hosts: readonly QuarantineHost[];
  readonly records: readonly Quarantined[];
  /** Undefined: there are no more. */
  readonly next: bigint | undefined;
}

export interface QuarantineDesk {
  /** Unresolved records, oldest first, after the record `after`. */
  list(host: HostId | undefined, after: bigint, limit: number): Promise<QuarantinePage>;
  /** Bills a record as its ticket says. Throws quarantinedUnknown, notReleasable, DatabaseUnavailable. */
  release(id: bigint, act: Act): Promise<Quarantined>;
  /** Throws quarantinedUnknown. */
  discard(id: bigint, act: Act): Promise<Quarantined>;
  /** All records of a host; returns how many. */
  discardHost(host: HostId, act: Act): Promise<number>;
}

export const quarantinedUnknown = () => notFound("quarantined_record_not_found", "Quarantined record not found.");

export const notReleasable = (why: string) =>
  conflict(
    "quarantined_record_not_releasable",
    `This record cannot be billed: ${why}. Discard it, and correct the account's credit if it owes something.`,
  );

export function createQuarantineDesk(deps: {
  readonly store: QuarantineStore;
  readonly settlement: Pick<Settlement, "release">;
}): QuarantineDesk {
  const { store, settlement } = deps;

  async function find(id: bigint): Promise<Quarantined> {
    const found = await store.findQuarantined(id);
    if (!found) throw quarantinedUnknown();
    return found;
  }

  async function resolved(found: Quarantined, how: "released" | "discarded", act: Act): Promise<Quarantined> {
    if (!(await store.resolve(found.id, how, act))) throw quarantinedUnknown();
    return found;
  }

  return {
    async list(host, after, limit) {
      const [hosts, found] = await Promise.all([
        store.quarantineHosts(),
        store.quarantined({ host }, after, limit + 1),
      ]);
      const records = found.slice(0, limit);
      return { hosts, records, next: found.length > limit ? records.at(-1)?.id : undefined };
    },

    async release(id, act) {
      const found = await find(id);
      // Billed first: a crash in between leaves a record that may be released again, which changes nothing.
      if (!(await bill(settlement, found))) throw new DatabaseUnavailable("unreachable");
      return resolved(found, "released", act);
    },

    discard: async (id, act) => resolved(await find(id), "discarded", act),
    discardHost: store.discardHost,
  };
}

async function bill(settlement: Pick<Settlement, "release">, { record, problem, why }: Quarantined): Promise<boolean> {
  if (problem === "expired" || problem === "unknown_instance" || problem === "outside_life") throw notReleasable(why);
  try {
    return await settlement.release(JSON.parse(record) as SpooledRecord);
  } catch (error) {
    if (error instanceof RefusedRecord || error instanceof RangeError) throw notReleasable(error.message);
    throw error;
  }
}
