// Admits a request: resolves its model, checks the account and its limits, and reserves money. Works in memory; waits only for a
// grant.
import type { AccountId } from "../../proto/ids.ts";
import type { ProviderRates, TokenRates } from "../../proto/money.ts";
import { discountedRates } from "../../proto/price-rules.ts";
import type { ServiceTier } from "../../proto/service-tier.ts";
import type { Caller } from "../accounts/caller.ts";
import type { Discounts } from "../billing/discounts.ts";
import { type Budgets, type Hold, InsufficientFunds, SpendingSuspended } from "../billing/hold.ts";
import { affordableMaxTokens, holdSize, promptTokensBound, type RequestSize } from "../billing/price.ts";
import { providerCeilingOf } from "../billing/provider-cost.ts";
import { modelsOf } from "../catalog/model-alias.ts";
import type { ModelDirectory, ServedModel } from "../catalog/served-model.ts";
import type { RateLimiter } from "../quotas/rate-limiter.ts";
import type { RatePermit } from "../quotas/rate-meter.ts";
import type { ServiceError } from "../service-error.ts";
import type { Completion, Trace } from "./completion.ts";
import { fundsSuspended, ModelNotFound, modelNotAllowed, suspendedByOperator } from "./errors.ts";
import { mayUse, usablePart } from "./may-use.ts";
import { billedTier, ratesAt, servedTier } from "./service-tier.ts";
import type { TaskUnits } from "./task.ts";

export interface Admission {
  readonly model: ServedModel;
  readonly account: AccountId;
  readonly key: Caller["key"];
  readonly hold: Hold;
  /** Permit of the account's rate limits. Ended with the hold, on every exit path. */
  readonly permit: RatePermit;
  /** Rates of the model, with the discount. */
  readonly rates: TokenRates;
  readonly discountId: string | undefined;
  readonly tier: ServiceTier;
  /** Share of a busy engine relative to other accounts. */
  readonly weight: number;
  readonly inputTokensBound: number;
  /** Estimate for the prompt only, billed for responses that break. */
  readonly inputTokensEstimate: number;
  /** Output tokens per sequence that the hold covers. */
  readonly maxTokens: number;
  /** The hold does not cover the requested tokens: the engine must receive `maxTokens`. */
  readonly isLowered: boolean;
  /** Undefined for text. */
  readonly units: TaskUnits | undefined;
  /** Hold of what the model's provider is paid, ended with `hold`; undefined: it is paid nothing. */
  readonly provider?: { readonly hold: Hold; readonly rates: ProviderRates } | undefined;
}

export interface AdmitDeps {
  readonly models: ModelDirectory;
  readonly budgets: Budgets;
  readonly rates: RateLimiter;
  readonly discounts: Pick<Discounts, "find">;
  /** Tier of all requests; absent: as each of them asks. */
  readonly tier?: ServiceTier;
}

/** Maximum response of a request without max_tokens. */
export const defaultMaxTokens = 16_384;

/** Throws fundsSuspended, suspendedByOperator, modelNotAllowed, ModelNotFound, RateLimited, InsufficientFunds, ProviderLimitReached, DatabaseUnavailable. */
export function admit(
  deps: AdmitDeps,
  caller: Caller,
  completion: Completion,
  trace: Trace,
): Admission | Promise<Admission> {
  const model = modelFor(deps.models, caller, completion.model, completion.alias);
  trace.model = model.name;
  trace.about = model.about;
  const size = sizeOf(completion, model.contextLength);
  const priced = pricesOf(deps, caller, completion, model, trace);
  trace.rates = priced.rates;
  const units = completion.task?.units(priced.rates.units);
  const { floor, full } = holdSize(size, priced.rates, units?.most);
  const rate = deps.rates.meter(caller.account, model.deployId);
  const key = caller.rates ? deps.rates.keyMeter(caller.key, caller.rates) : undefined;
  trace.rate = key ? key.standingWith(rate) : rate;
  const permit = key ? key.takeWith(rate, trace.isCountedForKey) : rate.take();
  trace.isCountedForKey = true;
  try {
    const hold = deps.budgets.hold({
      account: caller.account,
      key: caller.key,
      spending: caller.spending,
      requestId: trace.requestId,
      admittedAtMs: trace.admittedAtMs,
      floor,
      full,
    });
    const held = (granted: Hold) =>
      withProvider(
        deps,
        admitted(caller, model, completion, size, priced, granted, full, permit, rate.limits.weight, units),
        size,
        trace,
      );
    const admission = hold instanceof Promise ? hold.then(held) : held(hold);
    return admission instanceof Promise ? admission.catch((error) => refused(permit, error)) : admission;
  } catch (error) {
    return refused(permit, error);
  }
}

/** Checks that a request would be admitted now; it is admitted again when it runs. Throws as `admit` does. */
export async function mayRun(deps: AdmitDeps, caller: Caller, completion: Completion, trace: Trace): Promise<void> {
  const { hold, permit, provider } = await admit(deps, caller, completion, trace);
  // A hold does not outlive this process.
  hold.release();
  provider?.hold.release();
  permit.end(0);
}

/**
 * Resolves the requested model. With `alias`, `name` is a model of that alias; otherwise it may be an alias itself. Throws
 * fundsSuspended, suspendedByOperator, modelNotAllowed, ModelNotFound.
 */
export function modelFor(models: ModelDirectory, caller: Caller, name: string, alias?: string): ServedModel {
  if (caller.suspendReason !== null) throw suspended(caller.suspendReason);
  const model = alias === undefined ? firstOf(models, caller, name) : models.resolveModel(name, caller.account);
  if (!mayUse(caller.models, model, alias ?? name)) throw modelNotAllowed(alias ?? name);
  if (!model) throw new ModelNotFound(name, models.list(caller.account));
  return model;
}

/** Returns an alias's first model that the caller may use. */
function firstOf(models: ModelDirectory, { account, models: allowed }: Caller, name: string): ServedModel | undefined {
  const alias = allowed && models.aliasOf(name, account);
  if (!alias) return models.resolve(name, account);
  const resolve = (model: string) => models.resolveModel(model, account);
  for (const model of modelsOf(usablePart(allowed, alias, resolve), 0)) {
    const found = resolve(model);
    if (found) return found;
  }
  return undefined;
}

function refused(permit: RatePermit, error: unknown): never {
  permit.end(0);
  throw error instanceof SpendingSuspended ? suspended(error.reason) : error;
}

const suspended = (reason: string): ServiceError =>
  reason === "admin" ? suspendedByOperator() : fundsSuspended(reason);

function admitted(
  caller: Caller,
  model: ServedModel,
  { task }: Completion,
  size: RequestSize,
  priced: Priced,
  hold: Hold,
  full: bigint,
  permit: RatePermit,
  weight: number,
  units: TaskUnits | undefined,
): Admission {
  const isLowered = hold.amount < full;
  const maxTokens = isLowered ? affordableMaxTokens(hold.amount, size, priced.rates) : size.maxTokens;
  if (maxTokens < 1 && !task) {
    hold.release();
    throw new InsufficientFunds();
  }
  const inputTokensBound = task ? task.inputTokensBound : promptTokensBound(size);
  return {
    model,
    account: caller.account,
    key: caller.key,
    hold,
    permit,
    ...priced,
    inputTokensBound,
    inputTokensEstimate: task ? task.inputTokensEstimate : Math.ceil(size.promptBytes / bytesPerToken),
    weight,
    maxTokens,
    isLowered,
    units,
  };
}

/** Reserves what the model's provider is paid at most. */
function withProvider(
  { budgets }: AdmitDeps,
  admission: Admission,
  { n }: RequestSize,
  { requestId, admittedAtMs }: Trace,
): Admission | Promise<Admission> {
  const { provider, deployId } = admission.model;
  if (!provider) return admission;
  const { rates, hasMonthLimit, hasDayLimit } = provider;
  const amount = providerCeilingOf(admission.inputTokensBound, n * admission.maxTokens, rates);
  const refuse = (error: unknown): never => {
    admission.hold.release();
    throw error;
  };
  const held = (hold: Hold): Admission => ({ ...admission, provider: { hold, rates } });
  try {
    const request = { provider: deployId, hasMonthLimit, hasDayLimit, requestId, admittedAtMs, amount };
    const hold = budgets.holdProvider(request);
    return hold instanceof Promise ? hold.then(held, refuse) : held(hold);
  } catch (error) {
    return refuse(error);
  }
}

/** Average of ordinary text. */
const bytesPerToken = 4;

type Priced = Pick<Admission, "rates" | "discountId" | "tier">;

function pricesOf(deps: AdmitDeps, caller: Caller, completion: Completion, model: ServedModel, trace: Trace): Priced {
  const use = { account: caller.account, model: model.name, surface: completion.kind };
  const discount = deps.discounts.find(use, trace.admittedAtMs);
  const tier = deps.tier ?? servedTier(completion.serviceTier, caller);
  const rates = ratesAt(tier, model);
  return discount
    ? { rates: discountedRates(rates, discount.basisPoints), discountId: discount.id, tier }
    : { rates, discountId: billedTier(tier), tier };
}

/** The context bounds prompt and response; if it is unknown, only the request bounds them. */
function sizeOf(completion: Completion, contextLength: number): RequestSize {
  const { task } = completion;
  if (task) return { promptBytes: task.inputTokensBound, messages: 0, n: 0, maxTokens: 0 };
  const context = contextLength > 0 ? contextLength : Number.POSITIVE_INFINITY;
  return {
    promptBytes: Math.min(completion.promptBytes, context),
    messages: completion.messages,
    n: completion.n,
    maxTokens: Math.min(completion.maxTokens ?? defaultMaxTokens, context),
  };
}
