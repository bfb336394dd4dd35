// Callers that wait for an instance of a sleeping, starting or draining deployment: bounded in number and time, told how far
// it is, let through in the order they came as places come free. Nothing is held of their money meanwhile. Their waiting
// is what wakes the deployment and keeps it awake.
// Invariants: whoever waits leaves exactly once, also when the client goes; one loop per deployment, ended with its last waiter.
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import { InsufficientFunds } from "../billing/hold.ts";
import type { ServedAdapter, ServedModel } from "../catalog/served-model.ts";
import type { Routes } from "../fleet/routes.ts";
import type { AnswerSink } from "./answer-sink.ts";
import { ByteBudget } from "./byte-budget.ts";
import type { Trace } from "./completion.ts";
import { coldStartsFull, ModelNotReady } from "./errors.ts";

/** What is known of the next instance. Implemented by deployments/wake.ts. */
export type StartState =
  | { readonly kind: "coming" | "stuck"; readonly phase: string; readonly etaSeconds: number }
  | { readonly kind: "unpaid" }
  | { readonly kind: "ended"; readonly phase: string };

export interface ColdStartDeps {
  readonly routes: Pick<Routes, "ready">;
  /** Asks for an instance; throws when the database is away. */
  readonly ask: (id: DeploymentId, owner: AccountId, adapter: ServedAdapter | undefined) => Promise<StartState>;
  readonly limits?: Partial<ColdStartLimits>;
  /** Monotonic ms. */
  readonly clock?: () => number;
}

export interface ColdStartLimits {
  readonly streamMs: number;
  /** Proxies cut a request without an answer at 60 s. */
  readonly plainMs: number;
  readonly keepAliveMs: number;
  /** Nothing on its way for so long: nobody waits on. */
  readonly stuckMs: number;
  readonly askEveryMs: number;
  readonly lookEveryMs: number;
  /** Waiters of one deployment at this replica, whatever its batch. */
  readonly fewestWaiters: number;
  /** Of the bodies of those that wait, over all deployments. */
  readonly maxBytes: number;
}

export const coldStartLimits: ColdStartLimits = {
  streamMs: 600_000,
  plainMs: 50_000,
  keepAliveMs: 15_000,
  stuckMs: 5_000,
  askEveryMs: 1_000,
  lookEveryMs: 100,
  fewestWaiters: 256,
  maxBytes: 256 * 1024 * 1024,
};

export interface ColdStarts {
  /**
   * Resolves when there may be a place at an instance, or the client is gone. Throws ModelNotReady when the wait is over or
   * useless, coldStartsFull when too much waits already, InsufficientFunds when the owner's own instance is not paid for.
   */
  wait(
    model: ServedModel,
    isStream: boolean,
    sink: AnswerSink,
    request: Pick<Trace, "startedMs" | "bodyBytes">,
    account: AccountId,
  ): Promise<"ready" | "gone">;
  /** Nobody waits any more: this control plane ends. */
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
  readonly waiters: Set<Waiter>;
  state: StartState;
  stuckSinceMs: number | undefined;
}

/** Nothing was asked yet. */
const unknown: StartState = { kind: "coming", phase: "initializing", etaSeconds: 5 };

export function createColdStarts(deps: ColdStartDeps): ColdStarts {
  const limits = { ...coldStartLimits, ...deps.limits };
  const clock = deps.clock ?? (() => performance.now());
  /** By deployment, and by adapter where they wait for one. */
  const groups = new Map<DeploymentId | AdapterId, Group>();
  const budget = new ByteBudget(limits.maxBytes);
  let isClosed = false;

  async function run(model: ServedModel, group: Group): Promise<void> {
    let askMs = clock();
    while (group.waiters.size > 0) {
      if (clock() >= askMs) {
        await ask(model, group);
        askMs = clock() + limits.askEveryMs;
      }
      // Also before the first look: an instance that has a route and refuses would else be asked without a pause.
      await new Promise((resolve) => setTimeout(resolve, limits.lookEveryMs));
      look(model, group);
    }
    groups.delete(keyOf(model));
  }

  async function ask({ deployId, owner, adapter }: ServedModel, group: Group): Promise<void> {
    try {
      group.state = await deps.ask(deployId, owner, adapter);
    } catch {
      // Nobody can be told anything new and nothing can be woken; what is on its way may still come.
      group.state = {
        kind: "stuck",
        phase: group.state.kind === "coming" ? group.state.phase : "unknown",
        etaSeconds: 5,
      };
    }
    group.stuckSinceMs = group.state.kind === "stuck" ? (group.stuckSinceMs ?? clock()) : undefined;
  }

  function look(model: ServedModel, group: Group): void {
    const nowMs = clock();
    let places = placesOf(deps.routes, model);
    const refusal = refusalOf(group, nowMs, limits.stuckMs);
    for (const waiter of group.waiters) {
      if (waiter.sink.isGone) waiter.leave("gone");
      else if (nowMs >= waiter.untilMs) waiter.leave(notReady(waiter.model, group.state));
      else if (places-- > 0) waiter.leave("ready");
      else if (refusal) waiter.leave(refusal(waiter.model));
      else if (waiter.isStream && nowMs >= waiter.commentMs) {
        waiter.commentMs = nowMs + limits.keepAliveMs;
        waiter.sink.write(comment(group.state));
      }
    }
  }

  return {
    wait(model, isStream, sink, { startedMs, bodyBytes }, account) {
      const group = groups.get(keyOf(model)) ?? { waiters: new Set(), state: unknown, stuckSinceMs: undefined };
      const isFull = group.waiters.size >= Math.max(limits.fewestWaiters, 8 * model.maxBatchSize);
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
    close() {
      isClosed = true;
      for (const { waiters, state } of groups.values())
        for (const waiter of waiters) waiter.leave(notReady(waiter.model, state));
    },
  };
}

const keyOf = ({ adapter, deployId }: ServedModel) => adapter?.id ?? deployId;

/** No more than an agent's own queue takes beside those that run. */
function placesOf(routes: Pick<Routes, "ready">, { deployId, adapter }: ServedModel): number {
  let places = 0;
  for (const { maxBatchSize, inFlight } of routes.ready(deployId, adapter?.id))
    places += Math.max(0, 4 * maxBatchSize - inFlight);
  return places;
}

/** Why waiting is useless for all of them. */
function refusalOf(
  { state, stuckSinceMs }: Group,
  nowMs: number,
  stuckMs: number,
): ((model: ServedModel) => Error) | undefined {
  if (state.kind === "ended") return (model) => notReady(model, state);
  // Who may use an offered model does not pay for its instances, and cannot mend it.
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
