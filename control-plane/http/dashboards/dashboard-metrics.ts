// Traffic of the dashboards of all instances together: a series per instance would be unbounded.
import { Counter, Gauge, type Registry } from "prom-client";

/** 1xx: WebSockets that were opened. */
const classes = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const;

export function createDashboardMetrics(registry: Registry) {
  const registers = [registry];
  const requests = new Counter({
    name: "stoker_dashboard_requests_total",
    help: "Requests to dashboards of agent instances by class of status; 1xx are WebSockets that were opened",
    labelNames: ["status"] as const,
    registers,
  });
  const open = new Gauge({
    name: "stoker_dashboard_websockets",
    help: "WebSockets between browsers and dashboards that are open now",
    registers,
  });
  const bytes = new Counter({
    name: "stoker_dashboard_bytes_total",
    help: "Bytes of bodies and WebSockets from browsers to dashboards (in) and back (out)",
    labelNames: ["direction"] as const,
    registers,
  });
  for (const status of classes) requests.inc({ status }, 0);
  const passed = { in: bytes.labels({ direction: "in" }), out: bytes.labels({ direction: "out" }) };
  return {
    /** Counts a finished request or WebSocket handshake. */
    answered: (status: number): void => requests.inc({ status: classes[Math.floor(status / 100) - 1] ?? "5xx" }),
    /** Counts an open WebSocket until the returned function is called. */
    webSocket(): () => void {
      open.inc();
      return () => open.dec();
    },
    /** Counts bytes of bodies and WebSockets, without headers. `in`: from browsers. */
    passed: (direction: "in" | "out", count: number): void => passed[direction].inc(count),
  };
}

export type DashboardMetrics = ReturnType<typeof createDashboardMetrics>;
