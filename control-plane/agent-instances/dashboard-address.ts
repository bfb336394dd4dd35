// Addresses of dashboards: each agent instance has its own origin below one domain. Dashboards serve foreign content, so
// requests for such a host never reach the API or the console, and theirs never reach a dashboard. Pure.
import { createHash } from "node:crypto";
import type { DeploymentId } from "../../proto/ids.ts";

export interface DashboardAddress {
  readonly scheme: "http" | "https";
  /** True when a request with this `Host` is for dashboards, even for an unknown one. */
  owns(host: string | undefined): boolean;
  /** Returns the instance's label in the host name, as from `labelOf`; undefined: there is none. */
  labelIn(host: string | undefined): string | undefined;
  /** `port`: where the control plane listens, for an address without one. The result has no trailing slash. */
  originOf(id: DeploymentId, port: number | undefined): string;
}

const labelForm = /^agent-[0-9a-f]{32}$/;

/** Host names are case-insensitive; ids are not. */
export function labelOf(id: DeploymentId): string {
  return `agent-${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}

/** `pattern`: from config.ts, such as `https://*.dash.example.com`; `http://*.localhost` is this machine, at any port. */
export function dashboardAddress(pattern: string): DashboardAddress {
  const url = new URL(pattern.replace("*.", ""));
  const domain = url.hostname;
  const isLocal = domain === "localhost";
  const end = `.${domain}`;
  const isBelow = (host: string | undefined): host is string => host !== undefined && nameOf(host).endsWith(end);
  const labelIn = (host: string | undefined): string | undefined => {
    const label = isBelow(host) ? nameOf(host).slice(0, -end.length) : "";
    return labelForm.test(label) ? label : undefined;
  };
  return {
    scheme: url.protocol === "https:" ? "https" : "http",
    // Any other name of this machine may be the API's.
    owns: isLocal ? (host) => labelIn(host) !== undefined : isBelow,
    labelIn,
    originOf(id, port) {
      const at = url.port || (isLocal && port !== undefined ? String(port) : "");
      return `${url.protocol}//${labelOf(id)}${end}${at === "" ? "" : `:${at}`}`;
    },
  };
}

/** Strips the port and the trailing dot of the root domain. */
const nameOf = (host: string): string => host.toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
