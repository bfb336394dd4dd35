// "The host cannot reach me" and "I cannot reach the host" are two facts: this finds out the second. The agent announces
// where its data path is; a signed request there must come back with the host's own id.
import type { HostId } from "../../proto/ids.ts";
import { randomId } from "../../proto/ids.ts";
import { signTicket, type Ticket } from "../../proto/ticket.ts";

export interface DataPath {
  readonly hostId: HostId;
  readonly origin: string;
  readonly ticketKey: Buffer;
}

export type Proof = { readonly ok: true } | { readonly ok: false; readonly condition: string };

const limitMs = 5_000;
const maxAnswerBytes = 4_096;

/** Never throws: what went wrong is the condition the host is shown with. */
export async function proveDataPath(path: DataPath, signal: AbortSignal): Promise<Proof> {
  const failed = (why: string): Proof => ({ ok: false, condition: `data_path_unreachable: ${path.origin} ${why}` });
  try {
    const response = await fetch(new URL("/prove", path.origin), {
      method: "POST",
      headers: { "x-stoker-ticket": signTicket(operatorTicket("prove", ""), path.ticketKey) },
      redirect: "error",
      signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
    });
    const body = await firstBytes(response);
    if (!response.ok) return failed(`answered ${response.status}`);
    const answer: unknown = JSON.parse(body);
    const id = typeof answer === "object" && answer !== null && "host_id" in answer ? answer.host_id : undefined;
    return id === path.hostId ? { ok: true } : failed(`another host answers there (${String(id).slice(0, 64)})`);
  } catch (error) {
    return failed(reasonOf(error));
  }
}

/** A ticket for what costs nothing: proof and logs. It carries no hold and no permits. */
export function operatorTicket(purpose: string, instanceId: string): Ticket {
  const nowMs = Date.now();
  return {
    requestId: randomId<"request">(24),
    attempt: 1,
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

/** Whoever answers there is not proven yet: what it says beyond the limit is never read. */
async function firstBytes(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    length += part.length;
    if (length >= maxAnswerBytes) break;
  }
  return Buffer.concat(parts).subarray(0, maxAnswerBytes).toString("utf8");
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return `did not answer within ${limitMs / 1000} s`;
  const cause = error.cause as { code?: string; message?: string } | undefined;
  return cause?.code ?? cause?.message ?? error.message;
}
