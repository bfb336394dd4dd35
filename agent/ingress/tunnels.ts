// Connections of gateways that become bytes to one instance: dashboards and terminals. Each needs a ticket for its purpose.
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { Logger } from "pino";
import { dashboardProtocol, dashboardPurpose } from "../../proto/dashboard-tunnel.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { sizeIn, terminalProtocol, terminalPurpose } from "../../proto/terminal-tunnel.ts";
import { verifyTicket } from "../../proto/ticket.ts";
import { createDashboardTunnels } from "./dashboard-tunnels.ts";
import { refuseUpgrade } from "./refuse-upgrade.ts";
import { createTerminals, type OpenShell } from "./terminals.ts";

interface TunnelsOptions {
  readonly keys: () => readonly Buffer[];
  readonly ticketTimeMs: () => number;
  readonly dashboardEndMs: number;
  readonly openShell: OpenShell | undefined;
  /** Origin of its dashboard; undefined: it has none that can be reached now. */
  readonly dashboardOf: (id: InstanceId) => string | undefined;
  readonly log: Logger;
}

const form = /^\/i\/([^/?]+)\/(dashboard|terminal)(?:\?(.*))?$/;
const purposes = {
  dashboard: { protocol: dashboardProtocol, purpose: dashboardPurpose },
  terminal: { protocol: terminalProtocol, purpose: terminalPurpose },
} as const;

export function createTunnels({ keys, ticketTimeMs, dashboardEndMs, openShell, dashboardOf, log }: TunnelsOptions) {
  const dashboards = createDashboardTunnels(log, dashboardEndMs);
  const terminals = createTerminals(openShell, log);

  return {
    /** True for the protocol of an upgrade that `open` takes. */
    takes: (protocol: string | undefined) => protocol === dashboardProtocol || protocol === terminalProtocol,
    open({ url = "", headers }: IncomingMessage, socket: Duplex, first: Buffer): void {
      const [, id = "", kind, query = ""] = form.exec(url) ?? [];
      const instance = id as InstanceId;
      const wanted = purposes[kind as keyof typeof purposes];
      if (!wanted || headers.upgrade !== wanted.protocol) {
        refuseUpgrade(socket, 404);
        return;
      }
      const ticket = verifyTicket(String(headers["x-stoker-ticket"] ?? ""), keys(), ticketTimeMs());
      if (typeof ticket === "string" || ticket.instanceId !== instance || ticket.model !== wanted.purpose) {
        log.warn({ instance, problem: typeof ticket === "string" ? ticket : "other_purpose" }, "ticket refused");
        refuseUpgrade(socket, 401);
      } else if (kind === "dashboard") dashboards.open(instance, dashboardOf(instance), socket, first);
      else terminals.open({ instance, account: ticket.account }, sizeIn(query), socket, first);
    },
    keepDashboards: dashboards.keep,
    allowTerminals: terminals.allow,
    /** Shells end at once; dashboards may end what is open. */
    async close(leftMs: number): Promise<void> {
      await Promise.all([dashboards.close(leftMs), terminals.close()]);
    },
  };
}
