// Every table, for Kysely. Names are camelCase here and snake_case in PostgreSQL (store/core/database.ts). bigint columns are read as
// bigint; times are timestamptz. Money is nano-USD. Every table that a customer can see has account_id.
import type { Generated, Kysely, Transaction } from "kysely";
import type { AccountTables } from "../accounts/tables.ts";
import type { DeploymentsTables } from "../deployments/tables.ts";
import type { FleetTables } from "../fleet/tables.ts";
import type { IdentityTables } from "../identity/tables.ts";
import type { ModelsTables } from "../models/tables.ts";
import type { MoneyTables } from "../money/tables.ts";
import type { WorkTables } from "../work/tables.ts";
import type { DefaultTime, Time } from "./columns.ts";

export interface Database
  extends CoreTables,
    AccountTables,
    MoneyTables,
    FleetTables,
    DeploymentsTables,
    ModelsTables,
    IdentityTables,
    WorkTables {}

export type Db = Kysely<Database>;
export type Trx = Transaction<Database>;

interface CoreTables {
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
  /** Backups of this database that succeeded, by the name of the file. */
  databaseBackup: {
    file: string;
    /** Time of the snapshot. */
    takenAt: Time;
    sizeBytes: bigint;
    /** Rows of all tables. */
    rowCount: bigint;
    /** Version of Stoker. */
    version: string;
    /** Last trial restore that succeeded; null: none yet. */
    verifiedAt: Time | null;
  };
  /** Announced changes: every replica reads new rows each second; NOTIFY only wakes it. */
  change: { seq: Generated<bigint>; topic: string; subject: string; at: DefaultTime };
}
