// `<data>/agent.json`: process and addresses of the agent. A restarted agent uses the same port again, so that the address
// that gateways have stays valid.
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import type { Logger } from "pino";
import { isLoopbackHost } from "../../proto/address-rules.ts";
import { replaceFileSync } from "../../proto/replace-file.ts";

interface AgentFile {
  readonly pid: number;
  readonly ingress_port: number;
  readonly metrics_host: string;
  readonly metrics_port: number;
  readonly host_id: string;
  /** File with the token of the pages; absent: none is required. */
  readonly metrics_token_file?: string;
}

/** With a full disk the agent still serves, and the file keeps the previous address. */
export function writeAgentFile(dataDir: string, content: AgentFile, log: Pick<Logger, "warn">): void {
  const path = join(dataDir, "agent.json");
  try {
    replaceFileSync(path, `${JSON.stringify(content)}\n`);
  } catch (error) {
    log.warn({ err: error, path }, "could not store the agent's address");
  }
}

/** host:port under which others reach the metrics page; empty where it listens for this machine alone. */
export function metricsAddress(
  config: { readonly metricsHost: string; readonly advertise: string | undefined; readonly nodeName: string },
  port: number,
): string {
  const { metricsHost: host, advertise } = config;
  const reached = (advertise && URL.parse(advertise)?.hostname) || "127.0.0.1";
  if (port === 0) return "";
  // A page for this machine alone is of use to others where the data path is for this machine alone, too.
  if (isLoopbackHost(host)) return isLoopbackHost(reached) ? `127.0.0.1:${port}` : "";
  if (!/^(0\.0\.0\.0|::)$/.test(host)) return `${host.includes(":") ? `[${host}]` : host}:${port}`;
  return `${isLoopbackHost(reached) ? config.nodeName : reached}:${port}`;
}

/** Address at which gateways reach the data path. The scheme is that of the server: the setting may be of an earlier version. */
export function announcedOrigin(
  config: { readonly ingressHost: string; readonly advertise: string | undefined; readonly ingressTls: boolean },
  port: number,
): string {
  const { ingressHost, advertise, ingressTls } = config;
  const host = ingressHost.replace(/^0\.0\.0\.0$/, "127.0.0.1").replace(/^::$/, "::1");
  const origin = new URL(advertise ?? `http://${host.includes(":") ? `[${host}]` : host}:${port}`);
  if (!ingressTls || origin.protocol === "https:") return origin.origin;
  // A port that need not be written for one scheme must be for the other.
  return `https://${origin.hostname}:${origin.port || "80"}`;
}

/** The wanted port; for 0 the one of the last life when it is free, else 0: any. */
export async function choosePort(dataDir: string, host: string, wanted: number): Promise<number> {
  const last = wanted === 0 ? lastPort(dataDir) : undefined;
  return last !== undefined && (await isFree(host, last)) ? last : wanted;
}

function lastPort(dataDir: string): number | undefined {
  try {
    const { ingress_port } = JSON.parse(readFileSync(join(dataDir, "agent.json"), "utf8")) as Partial<AgentFile>;
    return Number.isInteger(ingress_port) ? ingress_port : undefined;
  } catch {
    return undefined;
  }
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, host, () => probe.close(() => resolve(true)));
  });
}
