// Incidents of the installation: judged by a repeated job, kept with their beginning and end.
import type { NodeView } from "../fleet/host-operations.ts";
import type { NoticedRestore } from "../fleet/store.ts";
import { checkCursor, pageOf } from "../page.ts";
import { type FoundIncident, type IncidentFacts, type IncidentKind, judge, type Severity } from "./judge.ts";

export type { FoundIncident, IncidentFacts };

export interface Incident extends Omit<FoundIncident, "account" | "deployment" | "host" | "gpu"> {
  readonly id: bigint;
  readonly account: { readonly uid: string; readonly email: string } | null;
  /** Name of the deployment; null also when it is gone. */
  readonly deployment: { readonly id: string; readonly name: string | null } | null;
  readonly host: { readonly id: string; readonly name: string | null } | null;
  readonly gpu: string | null;
  readonly beganAtMs: number;
  readonly endedAtMs: number | null;
}

export interface IncidentFilter {
  readonly isOpen: boolean;
  readonly kind?: IncidentKind | undefined;
  readonly severity?: Severity | undefined;
}

/** Interval of scheduled backups of a type of agent instances. */
export interface BackupSchedule {
  readonly type: string;
  readonly everyMs: number;
}

export interface IncidentStore {
  /** `maxEach`: deployments and receivers of each kind of trouble. `schedules`: of the backups of agent instances. */
  facts(maxEach: number, schedules: readonly BackupSchedule[]): Promise<IncidentFacts>;
  /**
   * Opens incidents that are new, updates those that are open, and ends the others. One that ended less than `reopenMs` ago opens
   * again. Several control planes may do so at once.
   */
  sync(found: readonly FoundIncident[], reopenMs: number): Promise<void>;
  /** Open ones: most severe, then newest first. Ended ones: the last first. */
  list(filter: IncidentFilter, after: bigint | undefined, limit: number): Promise<readonly Incident[]>;
  countOpen(): Promise<Readonly<Record<Severity, number>>>;
}

const maxEach = 200;
const reopenMs = 600_000;

export function createIncidents(deps: {
  readonly store: IncidentStore;
  readonly nodes: () => Promise<readonly NodeView[]>;
  readonly restores: (limit: number) => Promise<readonly NoticedRestore[]>;
  readonly backupSchedules: readonly BackupSchedule[];
  /** Until then the clocks of this process do not know which hosts are silent. */
  readonly settledAfterMs: number;
  readonly monotonicMs?: () => number;
}) {
  const { store, monotonicMs = () => performance.now() } = deps;
  const startedMs = monotonicMs();
  return {
    /** Idempotent. */
    async watch(): Promise<void> {
      if (monotonicMs() - startedMs < deps.settledAfterMs) return;
      const [facts, nodes, restores] = await Promise.all([
        store.facts(maxEach, deps.backupSchedules),
        deps.nodes(),
        deps.restores(5),
      ]);
      await store.sync(judge(facts, nodes, restores, Date.now()), reopenMs);
    },

    /** Throws badCursor. */
    async list(filter: IncidentFilter, cursor: string | undefined, limit: number) {
      checkCursor(cursor, /^\d{1,18}$/);
      const [found, open] = await Promise.all([
        store.list(filter, cursor === undefined ? undefined : BigInt(cursor), limit + 1),
        store.countOpen(),
      ]);
      return { ...pageOf(found, limit, ({ id }) => String(id)), open };
    },
  };
}

export type Incidents = ReturnType<typeof createIncidents>;
