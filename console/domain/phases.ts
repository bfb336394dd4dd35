// Phases of the newest instance and the time in each, from the events of a deployment.
import type { Responses } from "../../proto/gen/responses.ts";
import { isInstancePhase } from "../../proto/instance-phase.ts";

export type DeploymentEvent = Responses["GET /deploy/{deploy_id}/events"]["events"][number];

export interface Phase {
  readonly name: string;
  /** Undefined: not reached. */
  readonly ms: number | undefined;
  /** done, now, next, or failed. */
  readonly is: "done" | "now" | "next" | "failed";
}

export interface InstanceHistory {
  readonly id: string;
  readonly phase: string;
  readonly sinceMs: number;
  readonly placedMs: number;
  readonly restarts: number;
  readonly reason: string;
  readonly isRemoved: boolean;
}

/** Order of an instance's way to its first answer. `waiting` is the time before a host was chosen, unlike the event of that name. */
const way = ["waiting", "downloading", "creating", "loading", "ready"] as const;

const timeOf = ({ at }: DeploymentEvent): number => Date.parse(at);
const oldestFirst = (events: readonly DeploymentEvent[]) => events.toReversed();
/** Events of an instance that change its phase. Others, such as `restarted` and `waiting`, happen within one. */
const phaseOf = ({ kind }: DeploymentEvent): string | undefined => {
  const name = kind.startsWith("instance.") ? kind.slice("instance.".length) : "";
  return isInstancePhase(name) || name === "placed" || name === "removed" ? name : undefined;
};

/** Instances that the events mention, the newest first. */
export function instancesIn(events: readonly DeploymentEvent[]): readonly InstanceHistory[] {
  const found = new Map<string, InstanceHistory>();
  for (const event of oldestFirst(events)) {
    if (event.instance_id === null || !event.kind.startsWith("instance.")) continue;
    const phase = phaseOf(event);
    const atMs = timeOf(event);
    const before = found.get(event.instance_id) ?? {
      id: event.instance_id,
      phase: "placed",
      sinceMs: atMs,
      placedMs: atMs,
      restarts: 0,
      reason: "",
      isRemoved: false,
    };
    found.set(event.instance_id, {
      ...before,
      ...(event.kind === "instance.restarted" ? { restarts: Number(event.state) || before.restarts + 1 } : {}),
      ...(phase === undefined ? {} : { phase, sinceMs: atMs }),
      reason: event.reason || (phase === "ready" ? "" : before.reason),
      isRemoved: before.isRemoved || phase === "removed",
    });
  }
  return [...found.values()].reverse();
}

/** `events`: newest first. Empty if they mention no instance and it does not wait for one. */
export function phasesOf(events: readonly DeploymentEvent[], status: string, nowMs: number): readonly Phase[] {
  const [newest] = instancesIn(events);
  const own = newest ? oldestFirst(events).filter(({ instance_id: id }) => id === newest.id) : [];
  const placed = own.find((event) => phaseOf(event) === "placed");
  const asked = oldestFirst(events)
    .filter(
      ({ kind, at }) =>
        ["deployment.created", "deployment.scaled", "deployment.initializing", "deployment.specified"].includes(kind) &&
        (!placed || Date.parse(at) <= timeOf(placed)),
    )
    .at(-1);
  if (!newest && !asked) return [];
  const begins = new Map<string, number>();
  if (asked) begins.set("waiting", timeOf(asked));
  for (const event of own) {
    const phase = phaseOf(event);
    if (phase === undefined || begins.has(phase)) continue;
    begins.set(phase, timeOf(event));
  }
  // Without an event for the download, the time after the placement is counted as one.
  if (placed && !begins.has("downloading")) begins.set("downloading", timeOf(placed));
  const endOf = (index: number): number | undefined => {
    for (const later of way.slice(index + 1)) {
      const at = begins.get(later);
      if (at !== undefined) return at;
    }
    return undefined;
  };
  const hasFailed = begins.get("failed") ?? (status === "failed" ? newest?.sinceMs : undefined);
  const isOver = hasFailed !== undefined || ["stopped", "deleted", "failed"].includes(status) || newest?.isRemoved;
  return way.map((name, index): Phase => {
    const begin = begins.get(name);
    if (begin === undefined) return { name, ms: undefined, is: "next" };
    const end = endOf(index);
    if (end !== undefined) return { name, ms: end - begin, is: "done" };
    if (hasFailed !== undefined && name !== "ready") return { name, ms: Math.max(0, hasFailed - begin), is: "failed" };
    if (isOver) return { name, ms: Math.max(0, (newest?.sinceMs ?? begin) - begin), is: "done" };
    return { name, ms: nowMs - begin, is: "now" };
  });
}
