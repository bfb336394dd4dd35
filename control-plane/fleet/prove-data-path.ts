// Verifies that this control plane can reach a host: the agent announces its data path, and a signed request there must
// return the host's own id.

import { randomId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { signTicket, type Ticket } from "../../proto/ticket.ts";
import { askDataPath } from "./ask-data-path.ts";
import type { DataPathAddress, Dial } from "./dial.ts";
import { whyUnreachable } from "./why-unreachable.ts";

export interface DataPath extends DataPathAddress {
  readonly ticketKey: Buffer;
}

export type Proof = { readonly ok: true } | { readonly ok: false; readonly condition: string };

const limitMs = 5_000;
const maxBytes = 4_096;

/** Never throws: returns the condition to show for the host. */
export async function proveDataPath(dial: Dial, path: DataPath, signal: AbortSignal): Promise<Proof> {
  const failed = (why: string): Proof => ({ ok: false, condition: `data_path_unreachable: ${path.origin} ${why}` });
  try {
    const ticket = signTicket(operatorTicket("prove", ""), path.ticketKey);
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
    const { status, body } = await askDataPath(
      dial,
      path,
      { method: "POST", path: "/prove", ticket, maxBytes },
      bounded,
    );
    if (status !== 200) return failed(`answered ${status}`);
    const answer: unknown = JSON.parse(body);
    const id = typeof answer === "object" && answer !== null && "host_id" in answer ? answer.host_id : undefined;
    return id === path.hostId ? { ok: true } : failed(`another host answers there (${String(id).slice(0, 64)})`);
  } catch (error) {
    return failed(whyUnreachable(error, path.origin.startsWith("https:"), limitMs));
  }
}

/** Ticket for free operations: proof and logs. It carries no hold and no permits. */
export function operatorTicket(purpose: string, instanceId: string): Ticket {
  const nowMs = steadyTime.nowMs();
  return {
    requestId: randomId<"request">(24),
    attempt: 1,
    hostId: "",
    instanceId,
    deployId: "",
    admittedAtMs: nowMs,
    expiresAtMs: nowMs + 30_000,
    account: "",
    keyId: "",
    replicaId: "",
    model: purpose,
    leaseIds: [],
    hold: "0",
    permits: 0,
    inputTokensBound: 0,
    inputTokensEstimate: 0,
    maxTokens: 0,
    stream: false,
    usage: "drop",
    rates: ["0", "0", "0"],
    priceVersion: 0,
  };
}
