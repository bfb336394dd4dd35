import type { HostId, InstanceId } from "../../proto/ids.ts";
import { signTicket } from "../../proto/ticket.ts";
import { operatorTicket } from "./prove-data-path.ts";
import type { FleetStore } from "./store.ts";

const limitMs = 10_000;

/** Asks the host's data path for lines of one instance. Throws when the host is unknown or does not answer. */
export async function instanceLogs(
  store: Pick<FleetStore, "dataPath">,
  host: HostId,
  instance: InstanceId,
  query: { readonly fromMs?: number; readonly toMs?: number; readonly limit: number },
  signal: AbortSignal,
): Promise<readonly { readonly at: string; readonly line: string }[]> {
  const path = await store.dataPath(host);
  if (!path) throw new Error(`host ${host} is unknown`);
  const url = new URL(`/i/${instance}/logs`, path.origin);
  url.searchParams.set("limit", String(query.limit));
  if (query.fromMs !== undefined) url.searchParams.set("from", String(query.fromMs));
  if (query.toMs !== undefined) url.searchParams.set("to", String(query.toMs));
  const response = await fetch(url, {
    headers: { "x-stoker-ticket": signTicket(operatorTicket("logs", instance), path.ticketKey) },
    redirect: "error",
    signal: AbortSignal.any([signal, AbortSignal.timeout(limitMs)]),
  });
  const body: unknown = await response.json();
  if (!response.ok) throw new Error(`host ${host} answered ${response.status}`);
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
