// Where dashboards are: each agent instance has an origin of its own below one domain. What a dashboard serves is foreign
// content, so no request for such a host reaches the API or the console, and none for theirs reaches a dashboard. Pure.
import { createHash } from "node:crypto";
import type { DeploymentId } from "../../proto/ids.ts";

export interface DashboardAddress {
  readonly scheme: "http" | "https";
  /** Whether a request with this `Host` is for dashboards, an unknown one's included. */
  owns(host: string | undefined): boolean;
  /** The instance's own part of the host's name, as `labelOf` makes it; undefined: there is none. */
  labelIn(host: string | undefined): string | undefined;
  /** `port`: where the control plane listens, for an address that names none. Ends without a slash. */
  originOf(id: DeploymentId, port: number | undefined): string;
}

const labelForm = /^agent-[0-9a-f]{32}$/;

/** Names of hosts know no upper case, ids do. */
export function labelOf(id: DeploymentId): string {
  return `agent-${createHash("sha256").update(id).digest("hex").slice(0, 32)}`;
}

/** `pattern`: as config.ts takes it, such as `https://*.dash.example.com`; `http://*.localhost` is this machine, at any port. */
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

/** Without its port and the dot of the root. */
const nameOf = (host: string): string => host.toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
