import type { HostId, InstanceId } from "../../proto/ids.ts";
import { signTicket } from "../../proto/ticket.ts";
import type { Dial } from "./dial.ts";
import { askDataPath, operatorTicket } from "./prover.ts";
import type { FleetStore } from "./store.ts";

const limitMs = 10_000;
/** A thousand lines of maximum length. */
const maxBytes = 32 * 1024 * 1024;

/** Fetches lines of one instance from the host's data path. Throws when the host is unknown or does not respond. */
export async function instanceLogs(
  { store, dial }: { readonly store: Pick<FleetStore, "dataPath">; readonly dial: Dial },
  host: HostId,
  instance: InstanceId,
  query: { readonly fromMs?: number; readonly fromAt?: string; readonly toMs?: number; readonly limit: number },
  signal: AbortSignal,
): Promise<readonly { readonly at: string; readonly line: string }[]> {
  const path = await store.dataPath(host);
  if (!path) throw new Error(`host ${host} is unknown`);
  const params = new URLSearchParams({ limit: String(query.limit) });
  if (query.fromMs !== undefined) params.set("from", String(query.fromMs));
  if (query.fromAt !== undefined) params.set("at", query.fromAt);
  if (query.toMs !== undefined) params.set("to", String(query.toMs));
  const ticket = signTicket(operatorTicket("logs", instance), path.ticketKey);
  const asked = { method: "GET", path: `/i/${instance}/logs?${params}`, ticket, maxBytes } as const;
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
  const answer = await askDataPath(dial, { hostId: host, origin: path.origin }, asked, bounded);
  if (answer.status !== 200) throw new Error(`host ${host} answered ${answer.status}`);
  const body: unknown = JSON.parse(answer.body);
  return readLines(body);
}

/** `{"lines":[[at, line], ...]}` */
function readLines(body: unknown): readonly { readonly at: string; readonly line: string }[] {
  const lines = typeof body === "object" && body !== null && "lines" in body ? body.lines : undefined;
  if (!Array.isArray(lines)) throw new Error("the host's log answer has no lines");
  return lines.map((entry: unknown) => {
    const [at, line] = Array.isArray(entry) ? entry : [];
    return { at: String(at), line: String(line) };
  });
}
