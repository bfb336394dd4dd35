// Tables of the installation itself: keys and pushed changes.

import type { Generated } from "kysely";
import type { DefaultTime, Time } from "./columns.ts";

export interface CoreTables {
  /** One row per rotation, without the key itself. Version 1 has none. */
  kek: {
    version: number;
    /** Verifies that a machine's file is the one of this rotation. */
    fingerprint: Buffer;
    begunAt: DefaultTime;
    /** When every control plane had it: from then on no data key is wrapped by an older one. */
    inUseAt: Time | null;
    /** When everything sealed by older ones had been processed. */
    finishedAt: Time | null;
  };
  /** Newest key-encryption key that a control plane has. */
  replicaKek: { replicaId: string; version: number };
  /** Announced changes: every replica reads new rows each second; NOTIFY only wakes it. */
  change: { seq: Generated<bigint>; topic: string; subject: string; at: DefaultTime };
}
