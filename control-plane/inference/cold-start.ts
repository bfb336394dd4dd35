// Requests that wait for an instance of a sleeping, starting or draining deployment: bounded in number and time, informed of its
// progress, continued in order of arrival as slots become free. No money is held for them. Waiting requests wake the deployment and
// keep it running.
// Invariants: a waiter leaves exactly once, also when the client disconnects; one loop per deployment, which ends with its last waiter.
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import { WakeablePause } from "../../proto/repeat.ts";
import { InsufficientFunds } from "../billing/hold.ts";
import type { ServedAdapter, ServedModel } from "../catalog/served-model.ts";
import type { Routes } from "../fleet/routes.ts";
import type { AnswerSink } from "./answer-sink.ts";
import { ByteBudget } from "./byte-budget.ts";
import type { Trace } from "./completion.ts";
import { coldStartsFull, ModelNotReady } from "./errors.ts";

/** State of the next instance. Implemented by deployments/wake.ts. */
export type StartState =
  | { readonly kind: "coming" | "stuck"; readonly phase: string; readonly etaSeconds: number }
  | { readonly kind: "unpaid" }
  | { readonly kind: "ended"; readonly phase: string };

export interface ColdStartDeps {
  readonly routes: Pick<Routes, "ready">;
  /** Requests an instance; throws if the database is unavailable. */
  readonly ask: (id: DeploymentId, owner: AccountId, adapter: ServedAdapter | undefined) => Promise<StartState>;
  /** Calls the listener when the deployment changed; undefined: the routes of any of them did. */
  readonly onChange?: (listener: (id: DeploymentId | undefined) => void) => void;
  readonly limits?: Partial<ColdStartLimits>;
  /** Monotonic ms. */
  readonly clock?: () => number;
}

export interface ColdStartLimits {
  readonly streamMs: number;
  /** Proxies cut a request without an answer at 60 s. */
  readonly plainMs: number;
  readonly keepAliveMs: number;
  /** Requests stop waiting if no instance is starting for this long. */
  readonly stuckMs: number;
  readonly askEveryMs: number;
  /** Minimum interval of requests for an instance that changes of the deployment cause. */
  readonly changeEveryMs: number;
  readonly pollEveryMs: number;
  /** Minimum limit of waiters of one deployment at this replica; larger for large batches. */
  readonly minWaiterLimit: number;
  /** Maximum bytes of the bodies of waiting requests, over all deployments. */
  readonly maxBytes: number;
}

export const coldStartLimits: ColdStartLimits = {
  streamMs: 600_000,
  plainMs: 50_000,
  keepAliveMs: 15_000,
  stuckMs: 5_000,
  askEveryMs: 1_000,
  changeEveryMs: 250,
  pollEveryMs: 100,
  minWaiterLimit: 256,
  maxBytes: 256 * 1024 * 1024,
};

export interface ColdStarts {
  /**
   * Resolves when an instance may have a free slot, or the client is gone. Throws ModelNotReady when the wait is over or useless,
   * coldStartsFull when too many requests wait, InsufficientFunds when the owner cannot pay for an instance.
   */
  wait(
    model: ServedModel,
    isStream: boolean,
    sink: AnswerSink,
    request: Pick<Trace, "startedMs" | "bodyBytes">,
    account: AccountId,
  ): Promise<"ready" | "gone">;
  /** Requests an instance without waiting for it. */
  wake(model: ServedModel): void;
  /** Ends all waits, because this control plane stops. */
  close(): void;
}

interface Waiter {
  readonly model: ServedModel;
  readonly sink: AnswerSink;
  readonly isStream: boolean;
  readonly untilMs: number;
  commentMs: number;
  readonly leave: (how: "ready" | "gone" | Error) => void;
}

interface Group {
  /** Model that one of the waiters requested; all have the same deployment and adapter. */
  readonly model: ServedModel;
  readonly waiters: Set<Waiter>;
  state: StartState;
  stuckSinceMs: number | undefined;
  readonly untilNext: WakeablePause;
  /** Its deployment changed since the last request for an instance. */
  hasChanged: boolean;
}

/** State before the first request. */
const unknown: StartState = { kind: "coming", phase: "initializing", etaSeconds: 5 };

const newGroup = (model: ServedModel): Group => ({
  model,
  waiters: new Set(),
  state: unknown,
  stuckSinceMs: undefined,
  untilNext: new WakeablePause(),
  hasChanged: false,
});

/** The loop ends with its last waiter. */
const never = new AbortController().signal;

export function createColdStarts(deps: ColdStartDeps): ColdStarts {
  const limits = { ...coldStartLimits, ...deps.limits };
  const clock = deps.clock ?? (() => performance.now());
  /** By deployment, or by adapter if they wait for one. */
  const groups = new Map<DeploymentId | AdapterId, Group>();
  const budget = new ByteBudget(limits.maxBytes);
  /** Monotonic ms of the last request without a waiter. One entry for each deployment that an alias or a list of models names. */
  const woken = new Map<DeploymentId | AdapterId, number>();
  let isClosed = false;

  deps.onChange?.((id) => {
    for (const group of groups.values()) {
      const isOwn = group.model.deployId === id;
      if (!isOwn && (id !== undefined || freeSlots(deps.routes, group.model) === 0)) continue;
      group.hasChanged ||= isOwn;
      group.untilNext.wake();
    }
  });

  async function run(model: ServedModel, group: Group): Promise<void> {
    let askedMs = Number.NEGATIVE_INFINITY;
    while (group.waiters.size > 0) {
      // An instance that sleeps since the last request must be woken by another one.
      if (clock() - askedMs >= (group.hasChanged ? limits.changeEveryMs : limits.askEveryMs)) {
        group.hasChanged = false;
        await ask(model, group);
        askedMs = clock();
      }
      // Also before the first check: otherwise an instance that has a route and refuses would be tried without a pause.
      await group.untilNext.wait(limits.pollEveryMs, never);
      check(model, group);
    }
    groups.delete(keyOf(model));
  }

  async function ask({ deployId, owner, adapter }: ServedModel, group: Group): Promise<void> {
    try {
      group.state = await deps.ask(deployId, owner, adapter);
    } catch {
      // Nothing is known and nothing can be woken, but an instance may still be starting.
      group.state = {
        kind: "stuck",
        phase: group.state.kind === "coming" ? group.state.phase : "unknown",
        etaSeconds: 5,
      };
    }
    group.stuckSinceMs = group.state.kind === "stuck" ? (group.stuckSinceMs ?? clock()) : undefined;
  }

  function check(model: ServedModel, group: Group): void {
    const nowMs = clock();
    let slots = freeSlots(deps.routes, model);
    const refusal = refusalOf(group, nowMs, limits.stuckMs);
    for (const waiter of group.waiters) {
      if (waiter.sink.isGone) waiter.leave("gone");
      else if (nowMs >= waiter.untilMs) waiter.leave(notReady(waiter.model, group.state));
      else if (slots-- > 0) waiter.leave("ready");
      else if (refusal) waiter.leave(refusal(waiter.model));
      else if (waiter.isStream && nowMs >= waiter.commentMs) {
        waiter.commentMs = nowMs + limits.keepAliveMs;
        waiter.sink.write(comment(group.state));
      }
    }
  }

  return {
    wait(model, isStream, sink, { startedMs, bodyBytes }, account) {
      const group = groups.get(keyOf(model)) ?? newGroup(model);
      const isFull = group.waiters.size >= Math.max(limits.minWaiterLimit, 8 * model.maxBatchSize);
      if (isFull || isClosed) return Promise.reject(notReady(model, group.state));
      if (!budget.take(account, bodyBytes)) return Promise.reject(coldStartsFull(model.name, etaOf(group.state)));
      const nowMs = clock();
      return new Promise((resolve, reject) => {
        const waiter: Waiter = {
          model,
          sink,
          isStream,
          untilMs: startedMs + (isStream ? limits.streamMs : limits.plainMs),
          commentMs: nowMs + limits.keepAliveMs,
          leave(how) {
            if (!group.waiters.delete(waiter)) return;
            budget.give(account, bodyBytes);
            sink.listener = undefined;
            if (how instanceof Error) reject(how);
            else resolve(how);
          },
        };
        sink.listener = {
          clientGone: () => waiter.leave("gone"),
          dropped: (why) => waiter.leave(why),
          stalled() {},
          drained() {},
        };
        group.waiters.add(waiter);
        if (groups.has(keyOf(model))) return;
        groups.set(keyOf(model), group);
        void run(model, group);
      });
    },
    wake(model) {
      const key = keyOf(model);
      const nowMs = clock();
      if (isClosed || groups.has(key) || nowMs - (woken.get(key) ?? Number.NEGATIVE_INFINITY) < limits.askEveryMs)
        return;
      woken.set(key, nowMs);
      // A later request that finds it ready shows that it started.
      deps.ask(model.deployId, model.owner, model.adapter).catch(() => {});
    },
    close() {
      isClosed = true;
      for (const { waiters, state } of groups.values())
        for (const waiter of waiters) waiter.leave(notReady(waiter.model, state));
    },
  };
}

const keyOf = ({ adapter, deployId }: ServedModel) => adapter?.id ?? deployId;

/** Slots of the agents' own queues that are free. */
function freeSlots(routes: Pick<Routes, "ready">, { deployId, adapter }: ServedModel): number {
  let slots = 0;
  for (const { maxBatchSize, inFlight } of routes.ready(deployId, adapter?.id))
    slots += Math.max(0, 4 * maxBatchSize - inFlight);
  return slots;
}

/** Returns the refusal if waiting is useless for the whole group. */
function refusalOf(
  { state, stuckSinceMs }: Group,
  nowMs: number,
  stuckMs: number,
): ((model: ServedModel) => Error) | undefined {
  if (state.kind === "ended") return (model) => notReady(model, state);
  // A user of a public model does not pay for its instances and cannot fix this.
  if (state.kind === "unpaid")
    return (model) => (model.isPublic ? notReady(model, state) : new InsufficientFunds("instances"));
  return stuckSinceMs !== undefined && nowMs - stuckSinceMs >= stuckMs ? (model) => notReady(model, state) : undefined;
}

function notReady(model: ServedModel, state: StartState): ModelNotReady {
  const phase = state.kind === "unpaid" ? "stopped" : state.phase;
  const etaSeconds = etaOf(state);
  return new ModelNotReady(model.name, phase, Math.min(600, etaSeconds), etaSeconds);
}

const etaOf = (state: StartState): number => ("etaSeconds" in state ? state.etaSeconds : 60);

function comment(state: StartState): Buffer {
  const eta = "etaSeconds" in state ? ` eta=${state.etaSeconds}s` : "";
  return Buffer.from(`: keep-alive${"phase" in state ? ` phase=${state.phase}` : ""}${eta}\n\n`);
}
