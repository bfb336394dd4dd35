// Circuit breakers of external servers, in the memory of one control plane. A server that keeps failing receives no requests for a
// time, then one at a time until it answers again. Servers that hosts run are left out: their agents watch and restart them.
import type { Logger } from "pino";
import { Counter, Gauge, type Registry } from "prom-client";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { ServedModel } from "../catalog/served-model.ts";
import type { ServiceError } from "../service-error.ts";
import { EngineOverloaded, InstancesUnreachable } from "./errors.ts";

/** `key_refused`: 401 or 403. `rate_limited`: 429 with Retry-After. `failing`: errors, broken or no replies. */
export type OpenReason = "key_refused" | "rate_limited" | "failing";

export type Outcome =
  | { readonly kind: "answered" }
  /** It replied with this status, below 500 as well. */
  | { readonly kind: "status"; readonly status: number; readonly retryAfterSeconds: number | undefined }
  /** No reply, or a broken one. */
  | { readonly kind: "broken" }
  /** Says nothing of the server: the client left, or the host refused the request. */
  | { readonly kind: "unknown" };

export interface TargetState {
  /** `half_open`: one request is sent to see whether it answers. */
  readonly state: "closed" | "open" | "half_open";
  readonly reason: OpenReason | undefined;
  /** Until the next request is sent. */
  readonly secondsLeft: number;
  /** Failures without an answer in between. */
  readonly failures: number;
}

/** Failures in a row, or this share of the requests of a window, that open a breaker. */
const maxFailures = 5;
const window = { ms: 30_000, minRequests: 20, maxFailedShare: 0.5 };
/** Time for which it is open, doubled for each failed try. */
const openMs = { first: 10_000, max: 120_000 };
const keyRefusedMs = 60_000;
/** Limits memory use. */
const maxTargets = 200;

interface Target {
  readonly model: string;
  /** Failures in a row. */
  failures: number;
  /** The one account whose requests failed; undefined: several. Others are not refused for what one account sends. */
  account: AccountId | undefined;
  /** While it is open for one account: failures of others until it is open for all. */
  othersLeft: number;
  windowStartMs: number;
  windowRequests: number;
  windowFailures: number;
  /** Monotonic ms; 0: closed. */
  openUntilMs: number;
  reason: OpenReason | undefined;
  /** Times it was opened without an answer in between. */
  openings: number;
  /** Monotonic ms until which the one request of a half-open breaker may take. */
  tryUntilMs: number;
}

const closed: TargetState = { state: "closed", reason: undefined, secondsLeft: 0, failures: 0 };

export class TargetHealth {
  readonly #clock: () => number;
  readonly #log: Pick<Logger, "info" | "warn">;
  readonly #opened: Counter<"model" | "reason">;
  /** Those with a failure, in order of their last one. */
  readonly #targets = new Map<DeploymentId, Target>();

  constructor(deps: {
    readonly log: Pick<Logger, "info" | "warn">;
    readonly registry: Registry;
    clock?: () => number;
  }) {
    this.#clock = deps.clock ?? (() => performance.now());
    this.#log = deps.log;
    const registers = [deps.registry];
    const labelNames = ["model", "reason"] as const;
    this.#opened = new Counter({
      name: "stoker_target_opened_total",
      help: "Times that requests to an external server were stopped because it fails, by reason",
      labelNames,
      registers,
    });
    const targets = this.#targets;
    const clock = this.#clock;
    new Gauge({
      name: "stoker_target_open",
      help: "1 while this control plane sends an external server no requests, by reason",
      labelNames,
      registers,
      collect() {
        this.reset();
        for (const { model, reason, openUntilMs } of targets.values())
          if (reason && openUntilMs > clock()) this.set({ model, reason }, 1);
      },
    });
  }

  /** Returns why the server receives no request of this account now; undefined: send it, and report its end with `note`. */
  refusal({ deployId }: Pick<ServedModel, "deployId">, account: AccountId): ServiceError | undefined {
    const target = this.#targets.get(deployId);
    if (!target || target.openUntilMs === 0) return undefined;
    if (target.account !== undefined && target.account !== account) return undefined;
    const now = this.#clock();
    const untilMs = Math.max(target.openUntilMs, target.tryUntilMs);
    if (untilMs > now) {
      const seconds = Math.max(1, Math.ceil((untilMs - now) / 1000));
      if (target.reason === "rate_limited") return new EngineOverloaded(Math.min(60, seconds));
      return new InstancesUnreachable({ retryAfterSeconds: seconds }, "The model's server is not answering.");
    }
    target.tryUntilMs = now + openMs.first;
    return undefined;
  }

  note({ deployId, name }: Pick<ServedModel, "deployId" | "name">, account: AccountId, outcome: Outcome): void {
    const known = this.#targets.get(deployId);
    switch (kindOf(outcome)) {
      case "unknown":
        if (known) known.tryUntilMs = 0;
        return;
      case "answered":
        if (known) this.#answered(deployId, known, account);
        return;
      case "rate_limited":
      case "key_refused":
      case "failing":
        this.#failed(deployId, known ?? this.#add(deployId, name), account, outcome);
    }
  }

  stateOf(deployId: DeploymentId): TargetState {
    const target = this.#targets.get(deployId);
    if (!target) return closed;
    const { failures, reason, openUntilMs } = target;
    if (openUntilMs === 0) return { ...closed, failures };
    const leftMs = openUntilMs - this.#clock();
    const state = leftMs > 0 ? "open" : "half_open";
    return { state, reason, failures, secondsLeft: Math.max(0, Math.ceil(leftMs / 1000)) };
  }

  #answered(deployId: DeploymentId, target: Target, account: AccountId): void {
    const { model, reason, openUntilMs } = target;
    if (openUntilMs > this.#clock()) {
      // An answer to a request that was sent before it was opened says less than the failures after it.
      if (target.account !== undefined && target.account !== account) target.othersLeft = maxFailures;
      return;
    }
    if (openUntilMs > 0) this.#log.info({ model, deployId, reason }, "external server answers again");
    target.failures = 0;
    target.account = undefined;
    target.othersLeft = 1;
    target.openUntilMs = 0;
    target.tryUntilMs = 0;
    target.openings = 0;
    target.reason = undefined;
    target.windowRequests += 1;
    if (this.#clock() - target.windowStartMs > window.ms) this.#targets.delete(deployId);
  }

  #failed(deployId: DeploymentId, target: Target, account: AccountId, outcome: Outcome): void {
    const now = this.#clock();
    this.#targets.delete(deployId);
    this.#targets.set(deployId, target);
    if (target.openUntilMs > 0 && target.account !== undefined && target.account !== account && !isOfKey(outcome)) {
      // Two accounts that send what a server refuses must not block accounts that it serves.
      target.othersLeft -= 1;
      if (target.othersLeft > 0) return;
    }
    if (now - target.windowStartMs > window.ms) {
      target.windowStartMs = now;
      target.windowRequests = 0;
      target.windowFailures = 0;
    }
    target.windowRequests += 1;
    target.windowFailures += 1;
    if (target.failures === 0) target.account = account;
    else if (target.account !== account) target.account = undefined;
    target.failures += 1;
    const wasTried = target.openUntilMs > 0 && target.openUntilMs <= now;
    const reason = kindOf(outcome) as OpenReason;
    const isOpenNow = target.openUntilMs > now;
    if (reason === "rate_limited" && outcome.kind === "status") {
      // The provider counts all requests under its key.
      target.account = undefined;
      this.#open(deployId, target, reason, (outcome.retryAfterSeconds ?? 1) * 1000);
    } else if (reason === "key_refused") {
      if (outcome.kind === "status" && outcome.status === 401) target.account = undefined;
      this.#open(deployId, target, reason, keyRefusedMs);
    } else {
      const isMostly =
        target.windowRequests >= window.minRequests &&
        target.windowFailures >= target.windowRequests * window.maxFailedShare;
      if (isOpenNow || !(wasTried || isMostly || target.failures >= maxFailures)) return;
      this.#open(deployId, target, reason, Math.min(openMs.max, openMs.first * 2 ** target.openings));
    }
  }

  #open(deployId: DeploymentId, target: Target, reason: OpenReason, forMs: number): void {
    const now = this.#clock();
    const isNew = target.openUntilMs <= now || target.reason !== reason;
    target.openUntilMs = Math.max(isNew ? 0 : target.openUntilMs, now + forMs);
    target.tryUntilMs = 0;
    target.reason = reason;
    if (!isNew) return;
    target.openings += 1;
    const { model, failures } = target;
    this.#opened.inc({ model, reason });
    this.#log.warn(
      { model, deployId, reason, failures, seconds: Math.ceil(forMs / 1000) },
      "external server gets no requests",
    );
  }

  #add(deployId: DeploymentId, model: string): Target {
    const target: Target = {
      model,
      failures: 0,
      account: undefined,
      othersLeft: 1,
      windowStartMs: this.#clock(),
      windowRequests: 0,
      windowFailures: 0,
      openUntilMs: 0,
      reason: undefined,
      openings: 0,
      tryUntilMs: 0,
    };
    if (this.#targets.size >= maxTargets) this.#targets.delete(this.#targets.keys().next().value as DeploymentId);
    this.#targets.set(deployId, target);
    return target;
  }
}

/** The provider refuses all requests under its key. */
const isOfKey = (outcome: Outcome): boolean =>
  outcome.kind === "status" && (outcome.status === 401 || outcome.status === 429);

/** Refusals of a single request, such as 400, are answers: the server works. */
function kindOf(outcome: Outcome): OpenReason | "answered" | "unknown" {
  if (outcome.kind !== "status") return outcome.kind === "broken" ? "failing" : outcome.kind;
  const { status, retryAfterSeconds } = outcome;
  if (status === 401 || status === 403) return "key_refused";
  if (status === 429) return retryAfterSeconds === undefined ? "unknown" : "rate_limited";
  return status >= 500 ? "failing" : "answered";
}
