// Requests that were admitted and signed before the control plane died: what a gateway had under way, brought to the agents
// by the test in its place.

import { ticketKeySeal, ticketSeals } from "../../control-plane/accounts/seals.ts";
import { readSecretFiles } from "../../control-plane/accounts/secret-files.ts";
import { type HostId, randomId } from "../../proto/ids.ts";
import { signTicket } from "../../proto/ticket.ts";
import { query } from "../e2e/spine/database.ts";
import type { Stack } from "../fakes/processes.ts";

export interface IssuedTicket {
  readonly requestId: string;
  /** Asks the agent; rejects where nobody answers. */
  redeem(): Promise<{ readonly status: number; readonly text: string }>;
}

interface Place {
  instance_id: string;
  deploy_id: string;
  host_id: string;
  advertise: string;
  ticket_key: Buffer;
}

interface Paid {
  account_id: string;
  key_id: string;
  replica_id: string;
  model: string;
  lease_ids: string[];
  price_version: string;
}

/** So many, over all ready instances, on the leases of the last request that was settled. */
export async function issueTickets(stack: Stack, folder: string, count: number): Promise<readonly IssuedTicket[]> {
  const places = await query<Place>(
    stack.databaseUrl,
    `select i.instance_id, i.deploy_id, i.host_id, h.advertise, h.ticket_key from instance i join host h using (host_id)
     where i.phase = 'ready' order by i.instance_id`,
  );
  const [paid] = await query<Paid>(
    stack.databaseUrl,
    "select account_id, key_id, replica_id, model, lease_ids, price_version from usage order by settled_at desc limit 1",
  );
  if (!paid || places.length === 0) throw new Error("nothing was served yet: there is no lease to sign tickets on");
  const secrets = readSecretFiles(folder, true);
  const seal = ticketKeySeal(secrets);
  const usageSeal = ticketSeals(secrets).newest();
  return Array.from({ length: count }, (_, i) => {
    const place = places[i % places.length] as Place;
    const requestId = randomId(24);
    const nowMs = Date.now();
    const ticket = signTicket(
      {
        requestId,
        attempt: 1,
        hostId: place.host_id,
        instanceId: place.instance_id,
        deployId: place.deploy_id,
        admittedAtMs: nowMs,
        expiresAtMs: nowMs + 60_000,
        account: paid.account_id,
        keyId: paid.key_id,
        replicaId: paid.replica_id,
        model: paid.model,
        leaseIds: paid.lease_ids,
        hold: "100000",
        permits: 1,
        inputTokensBound: 10,
        inputTokensEstimate: 3,
        maxTokens: 4,
        stream: false,
        usage: "merge",
        rates: ["10000000000", "5000000000", "20000000000"],
        priceVersion: Number(paid.price_version),
      },
      seal.open(place.ticket_key, place.host_id as HostId),
      usageSeal,
    );
    return {
      requestId,
      async redeem() {
        const answer = await fetch(`${place.advertise}/i/${place.instance_id}/v1/completions`, {
          method: "POST",
          headers: { "content-type": "application/json", "x-stoker-ticket": ticket },
          body: JSON.stringify({ model: paid.model, prompt: "hello", max_tokens: 4 }),
          signal: AbortSignal.timeout(30_000),
        });
        return { status: answer.status, text: await answer.text() };
      },
    };
  });
}
