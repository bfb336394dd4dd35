import type { ColumnType, Generated } from "kysely";
import type { UnknownInstance } from "../../fleet/store.ts";
import type { DefaultTime, Json, OptionalJson, Time } from "./columns.ts";

export interface FleetTables {
  host: {
    host_id: string;
    hostname: string;
    advertise: string;
    inventory: Json<unknown>;
    node_epoch: bigint;
    /** Of its desired set: sent to the agent, rises with each change. */
    generation: Generated<bigint>;
    /** Moved by claims and inventory, never by heartbeats. */
    revision: Generated<bigint>;
    ticket_key: Buffer;
    schedulable: Generated<boolean>;
    condition: Generated<string>;
    agent_version: string;
    /** Of the agent's process that registered last, and of those that it took over from, newest first. */
    run_id: Generated<string>;
    /** When that process registered first. */
    run_began_at: DefaultTime;
    superseded_runs: Generated<string[]>;
    /** Not null: its agent has obeyed this epoch, which this database never gave. Nothing is told until it is adopted. */
    behind_epoch: bigint | null;
    behind_generation: Generated<bigint>;
    /** Not empty: two agents came with its identity. */
    identity_alert: Generated<string>;
    /** What runs there and no row of `instance` names: it holds its GPUs all the same. */
    unknown_instances: ColumnType<readonly UnknownInstance[], string | undefined, string>;
    /** In its last report: leases with a request in flight or an unacknowledged record. */
    open_lease_ids: Generated<string[]>;
    reported_at: Time | null;
    /** Figures of that report. */
    live: OptionalJson<unknown>;
    /** Weights that lie whole in its cache, as repo@revision. */
    kept_weights: Generated<string[]>;
    seen_at: DefaultTime;
    created_at: DefaultTime;
  };
}
