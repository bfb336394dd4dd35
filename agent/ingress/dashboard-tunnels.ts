// Connections of gateways to dashboards of agent instances. Only bytes are forwarded: the control plane authenticates the
// browser and filters HTTP. Only the port in the specification is dialled, and only with a ticket for it.
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { dashboardProtocol } from "../../proto/dashboard-tunnel.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { refuseUpgrade } from "./refuse-upgrade.ts";

/** Enough for two gateways, each with 128 open requests and as many connections kept for reuse. */
const maxPerInstance = 512;
const connectMs = 5_000;
/** Time for the last bytes to be sent. */
const flushMs = 2_000;
/** Maximum time without a byte in either direction. */
const idleMs = 15 * 60_000;
/** Bounds how slowly the last bytes of an ended program are read. `unreadMs`: parameter for tests. */
const patience = { unreadMs: idleMs };

export function createDashboardTunnels(log: Pick<Logger, "info">, endMs: number, { unreadMs } = patience) {
  const tunnels = new Map<InstanceId, Set<() => void>>();
  const endings = new Map<InstanceId, NodeJS.Timeout>();
  let isClosed = false;

  function endAll(id: InstanceId): void {
    endings.delete(id);
    for (const end of [...(tunnels.get(id) ?? [])]) end();
  }

  async function untilGone(ms: number): Promise<void> {
    const byMs = performance.now() + ms;
    while (tunnels.size > 0 && performance.now() < byMs) await wait(20);
  }

  function dial(id: InstanceId, origin: string, from: Duplex, first: Buffer): void {
    const { hostname, port } = new URL(origin);
    const to = connect({ host: hostname, port: Number(port) || 80, noDelay: true });
    let isOpen = false;
    const end = () => {
      to.destroy();
      setTimeout(() => from.destroy(), flushMs).unref();
    };
    const own = tunnels.get(id) ?? new Set();
    tunnels.set(id, own.add(end));
    to.setTimeout(connectMs);
    to.once("timeout", () => to.destroy(new Error("no bytes within the time limit")));
    to.once("connect", () => {
      isOpen = true;
      to.setTimeout(idleMs);
      from.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${dashboardProtocol}\r\n\r\n`);
      if (first.length > 0) to.write(first);
      to.pipe(from);
      from.pipe(to);
    });
    to.once("error", (err) => {
      log.info({ err, instance: id }, "dashboard connection failed");
    });
    to.once("close", () => {
      if (!isOpen) return refuseUpgrade(from, isClosed ? 503 : 502);
      // Its last bytes are still sent.
      from.end(() => from.destroy());
      const unread = setTimeout(() => from.destroy(), unreadMs).unref();
      from.once("close", () => clearTimeout(unread));
    });
    from.once("close", () => {
      to.destroy();
      own.delete(end);
      if (own.size === 0 && tunnels.get(id) === own) tunnels.delete(id);
    });
  }

  return {
    /** `origin`: origin of the dashboard; undefined: the instance has no reachable dashboard now. */
    open(id: InstanceId, origin: string | undefined, from: Duplex, first: Buffer) {
      if (isClosed) refuseUpgrade(from, 503);
      else if (origin === undefined) refuseUpgrade(from, 404);
      else if ((tunnels.get(id)?.size ?? 0) >= maxPerInstance) refuseUpgrade(from, 429);
      else dial(id, origin, from, first);
    },
    /**
     * All other instances are being stopped and have `endMs` to finish open connections: their program receives SIGTERM and ends
     * its answers itself. Remaining connections are then closed.
     */
    keep(isServed: (id: InstanceId) => boolean) {
      for (const [id, ending] of endings) {
        if (!isServed(id) && tunnels.has(id)) continue;
        clearTimeout(ending);
        endings.delete(id);
      }
      for (const id of tunnels.keys())
        if (!isServed(id) && !endings.has(id)) endings.set(id, setTimeout(endAll, endMs, id).unref());
    },
    /** Accepts no new connections. Instances continue, so only browsers end open connections: they have `leftMs`, at most `endMs`. */
    async close(leftMs: number) {
      isClosed = true;
      for (const ending of endings.values()) clearTimeout(ending);
      await untilGone(Math.min(leftMs, endMs));
      for (const id of [...tunnels.keys()]) endAll(id);
      await untilGone(flushMs);
    },
  };
}
