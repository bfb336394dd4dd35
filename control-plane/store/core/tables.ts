// Tables of the installation itself: keys and pushed changes.

import type { Generated } from "kysely";
import type { DefaultTime, Time } from "./columns.ts";

export interface CoreTables {
  /** One row per rotation: the keys themselves are never here. Version 1 has none. */
  kek: {
    version: number;
    /** Tells whether the file of a machine is the one that the rotation made. */
    fingerprint: Buffer;
    begunAt: DefaultTime;
    /** When every control plane held it: from then on no data key is wrapped by an older one. */
    inUseAt: Time | null;
    /** When all that older ones sealed had been tried. */
    finishedAt: Time | null;
  };
  /** The newest key-encryption key that a control plane holds. */
  replicaKek: { replicaId: string; version: number };
  /** Pushed facts: every replica reads past its last sequence each second; NOTIFY only wakes. */
  change: { seq: Generated<bigint>; topic: string; subject: string; at: DefaultTime };
}
