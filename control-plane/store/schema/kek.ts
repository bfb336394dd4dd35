import type { DefaultTime, Time } from "./columns.ts";

export interface KekTables {
  /** One row per rotation: the keys themselves are never here. Version 1 has none. */
  kek: {
    version: number;
    /** Tells whether the file of a machine is the one that the rotation made. */
    fingerprint: Buffer;
    begun_at: DefaultTime;
    /** When every control plane held it: from then on no data key is wrapped by an older one. */
    in_use_at: Time | null;
    /** When all that older ones sealed had been tried. */
    finished_at: Time | null;
  };
  /** The newest key-encryption key that a control plane holds. */
  replica_kek: { replica_id: string; version: number };
}
