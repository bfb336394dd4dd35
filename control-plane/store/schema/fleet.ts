import type { Generated } from "kysely";
import type { DefaultTime, Json, Time } from "./columns.ts";

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
    /** In its last report: leases with a request in flight or an unacknowledged record. */
    open_lease_ids: Generated<string[]>;
    reported_at: Time | null;
    seen_at: DefaultTime;
    created_at: DefaultTime;
  };
}
