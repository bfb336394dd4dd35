// Connections of gateways to dashboards of agent instances. Bytes alone: whose browser it is, and what of HTTP may pass, is
// the control plane's affair. Only the port that the specification names is ever dialled, and only with a ticket for it.
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { dashboardProtocol } from "../../proto/dashboard-tunnel.ts";
import type { InstanceId } from "../../proto/ids.ts";

interface DashboardTunnels {
  /** `origin`: of the dashboard; undefined: the instance has none that could be reached now. */
  open(id: InstanceId, origin: string | undefined, from: Duplex, first: Buffer): void;
  /**
   * Every other instance is being ended, and has `endMs` to finish what is open: its program hears SIGTERM and ends its answers
   * itself. What is left then is ended here.
   */
  keep(isServed: (id: InstanceId) => boolean): void;
  /** Takes nothing new. Instances run on, so nobody but their browsers ends what is open: it has `leftMs`, `endMs` at most. */
  close(leftMs: number): Promise<void>;
}

/** Of two gateways, each with 128 open requests and as many connections that it keeps for a moment. */
const mostPerInstance = 512;
const connectMs = 5_000;
/** For what was said last to leave. */
const flushMs = 2_000;
/** Without a byte in either direction. */
const idleMs = 15 * 60_000;
/** What a program said before it ended may leave slowly, and not never. `unreadMs`: tests cannot wait so long. */
const patience = { unreadMs: idleMs };

const reasons = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  429: "Too Many Requests",
  502: "Bad Gateway",
  503: "Service Unavailable",
} as const;

/** Ends an upgrade that is not carried out. */
export function refuseUpgrade(socket: Duplex, status: keyof typeof reasons): void {
  const head = `HTTP/1.1 ${status} ${reasons[status]}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`;
  // No timeout of the server's holds for it any more, and its peer may never end its own side.
  socket.end(head, () => socket.destroy());
}

export function createDashboardTunnels(
  log: Pick<Logger, "info">,
  endMs: number,
  { unreadMs } = patience,
): DashboardTunnels {
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
    to.once("timeout", () => to.destroy(new Error("nothing moved in time")));
    to.once("connect", () => {
      isOpen = true;
      to.setTimeout(idleMs);
      from.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${dashboardProtocol}\r\n\r\n`);
      if (first.length > 0) to.write(first);
      to.pipe(from);
      from.pipe(to);
    });
    to.once("error", (err) => {
      log.info({ err, instance: id }, "a dashboard could not be reached, or went away");
    });
    to.once("close", () => {
      if (!isOpen) return refuseUpgrade(from, isClosed ? 503 : 502);
      // What it said last still leaves.
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
    open(id, origin, from, first) {
      if (isClosed) refuseUpgrade(from, 503);
      else if (origin === undefined) refuseUpgrade(from, 404);
      else if ((tunnels.get(id)?.size ?? 0) >= mostPerInstance) refuseUpgrade(from, 429);
      else dial(id, origin, from, first);
    },
    keep(isServed) {
      for (const [id, ending] of endings) {
        if (!isServed(id) && tunnels.has(id)) continue;
        clearTimeout(ending);
        endings.delete(id);
      }
      for (const id of tunnels.keys())
        if (!isServed(id) && !endings.has(id)) endings.set(id, setTimeout(endAll, endMs, id).unref());
    },
    async close(leftMs) {
      isClosed = true;
      for (const ending of endings.values()) clearTimeout(ending);
      await untilGone(Math.min(leftMs, endMs));
      for (const id of [...tunnels.keys()]) endAll(id);
      await untilGone(flushMs);
    },
  };
}
