import { randomBytes } from "node:crypto";
import { type Values, write } from "./status-table.ts";

/** Adds a host whose agent is not connected, with its identity, as an enrolment writes them. */
export async function addHost(): Promise<Values> {
  const host = `h-${randomBytes(8).toString("hex")}`;
  await write(
    `insert into host (host_id, hostname, advertise, inventory, node_epoch, ticket_key, agent_version, seen_at)
     values ($1, $1, '', '{"gpus": [], "drivers": []}', 1, $2, '1', now() - interval '1 hour')`,
    [host, randomBytes(32)],
  );
  await write(
    `insert into node_identity (host_id, key_hash, serial, not_after) values ($1, $2, $1, now() + interval '1 day')`,
    [host, randomBytes(32)],
  );
  return { host };
}
