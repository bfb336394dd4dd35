// Limits of accounts: read, request, decide. Every change is one guarded write of the store.

import { type GpuType, inDisplayOrder, sizedGpuTypes } from "../../proto/gpu.ts";
import { type AccountId, randomId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import * as errors from "./errors.ts";
import { rateRequestOpen, rateRequestRefused, requestForbidden } from "./errors.ts";
import { type GpuDefaults, gpuLimits } from "./gpu-limits.ts";
import { fileGpuLimit, fileGpuRequest, type GpuLimitParams } from "./gpu-request.ts";
import { effectiveRateLimits, type RateLimits } from "./rate-limits.ts";
import type {
  AnyLimitRequest,
  Filing,
  LimitChange,
  LimitKind,
  LimitRecord,
  LimitRequest,
  ListedRequest,
  QuotaStore,
} from "./store.ts";

export interface QuotaDefaults {
  readonly rates: RateLimits;
  readonly gpus: GpuDefaults;
}

export interface GpuPool {
  readonly max: Readonly<Record<GpuType, number>>;
  readonly min: Readonly<Record<GpuType, number>>;
  readonly pending: LimitRequest<"gpu"> | undefined;
  /** Set while the newest decision is a rejection. */
  readonly lastRejection: LimitRequest<"gpu"> | undefined;
}

export interface AccountLimits extends Pick<GpuPool, "max" | "min"> {
  readonly rates: RateLimits;
}

/** All methods with an account throw quotaAccountGone when it does not exist. */
export function createLimitRequests(
  store: QuotaStore,
  defaults: QuotaDefaults,
  /** GPU types that the installation has. */
  existingTypes: () => Promise<readonly GpuType[]> = async () => [],
) {
  const limitsOf = async (record: LimitRecord): Promise<AccountLimits> => ({
    rates: effectiveRateLimits(record.rate, defaults.rates),
    ...gpuLimits(record, defaults.gpus, await existingTypes()),
  });
  const recordOf = async (account: AccountId) => there(await store.record(account));
  const file = async <Kind extends LimitKind>(
    account: AccountId,
    kind: Kind,
    prefix: string,
    decide: (record: LimitRecord, open: LimitRequest<Kind> | undefined) => Filing<Kind>,
  ) => there(await store.file(account, kind, `${prefix}_${randomId(16)}`, decide));

  return {
    rateLimits: async (account: AccountId): Promise<RateLimits> =>
      effectiveRateLimits((await recordOf(account)).rate, defaults.rates),

    /** The contract's sized types, then others that the installation has. */
    async gpuTypes(): Promise<readonly GpuType[]> {
      const existing = await existingTypes();
      return inDisplayOrder([...sizedGpuTypes, ...existing]).filter((type) => type !== "other");
    },

    /** Throws requestForbidden, rateRequestOpen, rateRequestRefused. */
    async requestRates(account: AccountId, request: RateLimitParams): Promise<void> {
      await file(account, "rate", "rlr", (record, open) => fileRateRequest(request, record, open, defaults.rates));
    },

    /** Throws limitRequestNotFound, limitRequestDecided. */
    async withdrawRates(account: AccountId, id: string): Promise<void> {
      raise(await store.withdraw(account, "rate", id));
    },

    /** Requests of the account of both kinds with the operator's answers, newest first. */
    requestsOf: async (account: AccountId, limit: number): Promise<readonly AnyLimitRequest[]> => {
      await recordOf(account);
      return store.requestsOf(account, limit);
    },

    async gpuPool(account: AccountId): Promise<GpuPool> {
      const record = await recordOf(account);
      const decided = await store.lastDecided(account, "gpu");
      return {
        ...gpuLimits(record, defaults.gpus, await existingTypes()),
        pending: await store.openRequest(account, "gpu"),
        lastRejection: decided?.decision === "rejected" ? decided : undefined,
      };
    },

    /** Throws GpuRequestRefused, gpuRequestConflict. */
    requestGpus: (account: AccountId, request: GpuLimitParams): Promise<LimitRequest<"gpu">> =>
      file(account, "gpu", "gpr", (record, open) => fileGpuRequest(request, record, open, defaults.gpus)),

    /** Files or amends the one open request. Throws requestForbidden, gpuLimitRefused. */
    requestGpuLimit: (account: AccountId, gpu: GpuType, limit: number, reason: string): Promise<LimitRequest<"gpu">> =>
      file(account, "gpu", "gpr", (record, open) => {
        if (record.suspendReason !== null) throw errors.requestForbidden(record.suspendReason);
        try {
          return fileGpuLimit(gpu, limit, reason, record, open, defaults.gpus);
        } catch (error) {
          throw error instanceof errors.GpuRequestRefused ? errors.gpuLimitRefused(error) : error;
        }
      }),

    /** Throws limitRequestNotFound, limitRequestDecided. */
    async withdrawGpus(account: AccountId, id: string): Promise<void> {
      raise(await store.withdraw(account, "gpu", id));
    },

    list: <Kind extends LimitKind>(kind: Kind, limit: number): Promise<readonly ListedRequest<Kind>[]> =>
      store.list(kind, limit),

    /**
     * Throws limitRequestNotFound, limitRequestDecided, and limitRequestMoved when the request was amended since `ifRevision`.
     */
    async resolve(
      kind: LimitKind,
      id: string,
      decision: "approved" | "rejected",
      ifRevision: number | undefined,
      act: Act,
    ): Promise<void> {
      raise(await store.resolve(kind, id, decision, ifRevision, act));
    },

    limits: async (account: AccountId): Promise<AccountLimits> => limitsOf(await recordOf(account)),

    /** Throws limitsRefused. */
    async setLimits(account: AccountId, change: LimitChange, act: Act): Promise<AccountLimits> {
      const check = (next: LimitRecord) => {
        const { max, min } = gpuLimits(next, defaults.gpus);
        for (const [gpu, count] of Object.entries(max)) {
          if ((min[gpu] ?? 0) > count) {
            throw errors.limitsRefused(`${gpu}: the minimum of ${min[gpu]} is above the maximum of ${count}.`);
          }
        }
      };
      return limitsOf(there(await store.setLimits(account, change, check, act)));
    },
  };
}

export type LimitRequests = ReturnType<typeof createLimitRequests>;

function there<T>(found: T | undefined): T {
  if (found === undefined) throw errors.quotaAccountGone();
  return found;
}

function raise(outcome: "done" | "decided" | "moved" | "unknown"): void {
  switch (outcome) {
    case "done":
      return;
    case "decided":
      throw errors.limitRequestDecided();
    case "moved":
      throw errors.limitRequestMoved();
    case "unknown":
      throw errors.limitRequestNotFound();
  }
}

interface RateLimitParams {
  readonly concurrent: number;
  /** Null: unchanged. */
  readonly tokensPerMinute: number | null;
  readonly reason: string;
}

/** Throws requestForbidden, rateRequestOpen, rateRequestRefused. */
export function fileRateRequest(
  request: RateLimitParams,
  record: LimitRecord,
  open: LimitRequest | undefined,
  defaults: RateLimits,
): Filing<"rate"> {
  if (record.suspendReason !== null) throw requestForbidden(record.suspendReason);
  if (open) throw rateRequestOpen();
  const now = effectiveRateLimits(record.rate, defaults);
  const tokensPerMinute = request.tokensPerMinute ?? now.tokensPerMinute;
  const isLower = request.concurrent < now.concurrent || tokensPerMinute < now.tokensPerMinute;
  const isHigher = request.concurrent > now.concurrent || tokensPerMinute > now.tokensPerMinute;
  if (isLower || !isHigher) throw rateRequestRefused(now.concurrent, now.tokensPerMinute);
  return {
    requested: { concurrent: request.concurrent, tokensPerMinute: request.tokensPerMinute },
    reason: request.reason,
  };
}
