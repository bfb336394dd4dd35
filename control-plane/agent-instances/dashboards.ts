// Visits to dashboards: a launch token is exchanged for a cookie, once, and the cookie opens one instance's dashboard until
// it expires, its instance is deleted or its account is suspended. The rows decide; several control planes share them.
import { createHash, randomBytes } from "node:crypto";
import type { AccountId, DeploymentId, HostId } from "../../proto/ids.ts";
import type { DeploymentStatus } from "../deployments/deployment.ts";
import type { InstanceWay } from "../fleet/open-tunnel.ts";
import type { DataPath } from "../fleet/prover.ts";
import { type DashboardAddress, labelOf } from "./dashboard-address.ts";
import type { DashboardRow, DashboardStore, Launcher } from "./store.ts";

/** Path that a browser opens with its token. */
export const launchPath = "/.stoker/launch";

export interface Visit {
  readonly id: DeploymentId;
  readonly status: DeploymentStatus;
  /** Undefined: it does not serve now. */
  readonly way: DashboardWay | undefined;
}

export type DashboardWay = InstanceWay;

export interface Dashboards {
  readonly address: DashboardAddress;
  /**
   * Returns the address that opens it once; undefined: the instance does not run. `port`: where the control plane listens.
   */
  launch(
    of: { readonly id: DeploymentId; readonly account: AccountId },
    by: Launcher & { readonly port: number | undefined },
  ): Promise<string | undefined>;
  /** Undefined: the token is invalid, or belongs to another instance. */
  enter(label: string, token: string): Promise<{ readonly cookie: string; readonly maxAgeSeconds: number } | undefined>;
  /** Undefined: the cookie is invalid, or belongs to another instance. Cached for up to two seconds. */
  find(label: string, cookie: string): Promise<Visit | undefined>;
}

const launchMs = 60_000;
const visitMs = 12 * 3_600_000;
/** For one instance, in all browsers of its account. */
const maxVisits = 20;
const rememberedMs = 2_000;
const maxRemembered = 1_000;
const secretForm = /^[\w-]{43}$/;

export function createDashboards(deps: {
  readonly address: DashboardAddress;
  readonly store: Pick<DashboardStore, "launch" | "enter" | "visit">;
  readonly dataPath: (host: HostId) => Promise<Pick<DataPath, "origin" | "ticketKey"> | undefined>;
  /** Monotonic ms. */
  readonly clock: () => number;
}): Dashboards {
  const { address, store, clock } = deps;
  // A page loads dozens of files at once.
  const remembered = new Map<string, { readonly untilMs: number; readonly visit: Promise<Visit | undefined> }>();

  async function readVisit(cookie: string): Promise<Visit | undefined> {
    const row = await store.visit(hashOf(cookie));
    return row && { id: row.id, status: row.status, way: await wayTo(row.at) };
  }

  async function wayTo(at: DashboardRow["at"]): Promise<DashboardWay | undefined> {
    const path = at && (await deps.dataPath(at.host));
    return path && { instance: at.instance, hostId: at.host, origin: path.origin, ticketKey: path.ticketKey };
  }

  function recent(cookie: string): Promise<Visit | undefined> {
    const known = remembered.get(cookie);
    if (known && clock() < known.untilMs) return known.visit;
    if (remembered.size >= maxRemembered) remembered.clear();
    const visit = readVisit(cookie);
    remembered.set(cookie, { untilMs: clock() + rememberedMs, visit });
    const forget = () => void remembered.delete(cookie);
    // Invented cookies must not fill the cache.
    visit.then((found) => found ?? forget(), forget);
    return visit;
  }

  return {
    address,
    async launch({ id, account }, { port, ...by }) {
      const token = newSecret();
      const visit = { hash: hashOf(token), id, account, forMs: launchMs };
      if (!(await store.launch(visit, maxVisits, by))) return undefined;
      return `${address.originOf(id, port)}${launchPath}?token=${token}`;
    },
    async enter(label, token) {
      if (!secretForm.test(token)) return undefined;
      const cookie = newSecret();
      const id = await store.enter(hashOf(token), hashOf(cookie), visitMs);
      // A token is also used up at another instance's address.
      if (id === undefined || labelOf(id) !== label) return undefined;
      return { cookie, maxAgeSeconds: visitMs / 1000 };
    },
    async find(label, cookie) {
      if (!secretForm.test(cookie)) return undefined;
      const visit = await recent(cookie);
      return visit && labelOf(visit.id) === label ? visit : undefined;
    },
  };
}

const newSecret = (): string => randomBytes(32).toString("base64url");
/** A secret of 256 random bits needs no slow hash. */
const hashOf = (secret: string): Buffer => createHash("sha256").update(secret).digest();
