// The only place that knows statuses: from what happened to what a client sees, in the dialect of its surface.
import * as cliLogin from "../accounts/cli-login-errors.ts";
import * as accounts from "../accounts/errors.ts";
import * as tokens from "../accounts/token-errors.ts";
import * as agents from "../agent-instances/errors.ts";
import * as voices from "../assets/errors.ts";
import * as batches from "../batches/errors.ts";
import { ChargeEnded, ChargeNotFound } from "../billing/charges.ts";
import { DiscountNotFound, DiscountRefused } from "../billing/discounts.ts";
import { AccountWithoutFunds, CreditReferenceTaken, CreditRefused } from "../billing/funds.ts";
import { BudgetStoreAway, InsufficientFunds } from "../billing/hold.ts";
import { UnknownInvoice } from "../billing/invoice-queries.ts";
import { LimitedKeyNotFound } from "../billing/limits.ts";
import { BilledAccountGone, TopupRefused } from "../billing/paying.ts";
import { BadPaymentEvent, NoPaymentEvents, PaymentProviderAway } from "../billing/payments.ts";
import { BadPeriod } from "../billing/period.ts";
import { PriceRefused } from "../billing/price-book.ts";
import { ReportsBusy } from "../billing/report-slots.ts";
import { RequestUnknown } from "../billing/request-log.ts";
import { ModelNotOwned, ModelVersionUnknown } from "../catalog/model-records.ts";
import { OfferedDeploymentUnknown, OfferRefused } from "../catalog/offer-model.ts";
import * as containers from "../containers/errors.ts";
import * as deployments from "../deployments/errors.ts";
import * as files from "../files/errors.ts";
import * as fleet from "../fleet/errors.ts";
import { PrefetchNodeNotFound, PrefetchNotFound } from "../fleet/node-weights.ts";
import * as inference from "../inference/errors.ts";
import * as quotas from "../quotas/errors.ts";
import { ReportTooLong, ServiceError } from "../service-error.ts";
import * as webhooks from "../webhooks/errors.ts";
import { type Dialect, errorBody } from "./error-body.ts";
import * as edge from "./errors.ts";
import { bodyLimitBytes } from "./json-body.ts";
import { BadRange } from "./read-range.ts";
import type { Refusal } from "./refusal.ts";
import { type Detail, detailOf, type Place, type SchemaError } from "./validation-detail.ts";

type ErrorClass = abstract new (...args: never[]) => ServiceError;

const statusOf = new Map<ErrorClass, number>([
  [accounts.InvalidApiKey, 401],
  [accounts.NotAdmin, 403],
  [accounts.ScopeNotAllowed, 403],
  [accounts.AccountNameTaken, 409],
  [accounts.BadDisplayName, 422],
  [tokens.KeyNameTaken, 409],
  [tokens.BadKeyName, 422],
  [tokens.BadAllowedIps, 422],
  [tokens.ShutsOutCaller, 422],
  [tokens.SigningKeyUnknown, 404],
  [tokens.BadExpiry, 422],
  [tokens.TooManyModels, 422],
  [tokens.ScopedJwtNotFound, 404],
  [tokens.IdempotencyKeyReused, 422],
  [tokens.IdempotencyKeyInUse, 409],
  [tokens.AnswerNotKept, 409],
  [tokens.AnswerLost, 409],
  [tokens.BadIdempotencyKey, 422],
  [PrefetchNodeNotFound, 404],
  [PrefetchNotFound, 404],
  [accounts.AccountStoreAway, 503],
  [accounts.AccountNotFound, 404],
  [accounts.AccountDeleted, 409],
  [accounts.NotSuspended, 409],
  [accounts.LastAdmin, 409],
  [accounts.BadCursor, 422],
  [accounts.AccountGone, 404],
  [accounts.AccountInUse, 409],
  [cliLogin.CliLoginUsed, 404],
  [cliLogin.CliLoginTimedOut, 408],
  [cliLogin.CliLoginBusy, 429],
  [accounts.WrongPassword, 401],
  [accounts.TooManyAttempts, 429],
  [accounts.SignInBusy, 429],
  [accounts.SignUpClosed, 403],
  [accounts.NotInTeam, 404],
  [accounts.BadSshKey, 422],
  [accounts.SshKeyNameTaken, 409],
  [accounts.SshKeyNotFound, 404],
  [accounts.ApplicationOpen, 409],
  [accounts.ApplicationNotFound, 404],
  [accounts.ApplicationDecided, 409],
  [voices.VoiceNotFound, 404],
  [voices.VoiceNameTaken, 409],
  [voices.VoiceSlotsFull, 409],
  [voices.PresetVoiceFixed, 400],
  [voices.BadVoiceSamples, 400],
  [voices.NoVoiceModel, 503],
  [voices.ModelCannotBlend, 400],
  [voices.VoiceAccountGone, 404],
  [InsufficientFunds, 402],
  [BudgetStoreAway, 503],
  [AccountWithoutFunds, 404],
  [CreditRefused, 422],
  [PriceRefused, 422],
  [DiscountRefused, 422],
  [DiscountNotFound, 404],
  [CreditReferenceTaken, 409],
  [BadPeriod, 422],
  [ReportTooLong, 422],
  [ReportsBusy, 429],
  [UnknownInvoice, 404],
  [RequestUnknown, 404],
  [LimitedKeyNotFound, 404],
  [ChargeNotFound, 404],
  [ChargeEnded, 409],
  [BilledAccountGone, 404],
  [TopupRefused, 422],
  [PaymentProviderAway, 503],
  [BadPaymentEvent, 400],
  [NoPaymentEvents, 404],
  [OfferRefused, 422],
  [OfferedDeploymentUnknown, 404],
  [ModelNotOwned, 401],
  [ModelVersionUnknown, 404],
  [containers.ContainerNotFound, 404],
  [containers.ContainerNameTaken, 409],
  [containers.ContainerRefused, 422],
  [containers.FirstStartRefused, 400],
  [containers.ContainerLimitReached, 429],
  [deployments.DeploymentNotFound, 404],
  [deployments.DeploymentNameTaken, 409],
  [deployments.BaseModelUnknown, 404],
  [deployments.DeploymentGone, 410],
  [deployments.DeploymentRefused, 422],
  [deployments.AdapterRefused, 422],
  [deployments.AdapterNotFound, 404],
  [deployments.ExtraArgRefused, 422],
  [deployments.NoFunds, 402],
  [deployments.AccountSuspended, 423],
  [deployments.AccountEnded, 404],
  [deployments.WrongDeploymentState, 400],
  [deployments.DeploymentConflict, 409],
  [deployments.HostNotFound, 404],
  [deployments.LogsUnavailable, 503],
  [deployments.DeploymentStoreAway, 503],
  [fleet.NodeNotFound, 404],
  [fleet.NodeNameShared, 404],
  [fleet.NodeNotBehind, 409],
  [fleet.NodeRevoked, 409],
  [fleet.NodeInUse, 409],
  [fleet.NodeDraining, 409],
  [fleet.NodeConnected, 409],
  [fleet.NothingCordoned, 409],
  [agents.AgentInstanceNotFound, 404],
  [agents.AgentTypeUnknown, 400],
  [agents.AgentNameTaken, 409],
  [agents.AgentWrongState, 409],
  [agents.NoDashboard, 409],
  [agents.DashboardClosed, 401],
  [agents.DashboardUnknown, 404],
  [agents.DashboardForeign, 403],
  [agents.DashboardNotReady, 503],
  [agents.DashboardBusy, 429],
  [agents.DashboardUnreachable, 502],
  [agents.DashboardHostAway, 503],
  [agents.AgentBusy, 409],
  [agents.TooManyAgents, 429],
  [agents.TooManyBackups, 409],
  [agents.NoAgentFunds, 402],
  [agents.NoAgentCapacity, 503],
  [agents.BackupNotFound, 404],
  [batches.BatchNotFound, 404],
  [batches.BatchInputMissing, 404],
  [batches.BatchEnded, 409],
  [batches.TooManyBatches, 429],
  [batches.BatchNeedsKey, 403],
  [files.FileNotFound, 404],
  [files.FileEmpty, 400],
  [files.FileTooLarge, 413],
  [files.FileQuotaUsedUp, 413],
  [files.FileInUse, 409],
  [files.FileStoreAway, 503],
  [files.UnknownCursor, 422],
  [quotas.RateLimited, 429],
  [quotas.GpuLimitReached, 422],
  [quotas.GpuRequestRefused, 400],
  [quotas.GpuLimitRefused, 422],
  [quotas.GpuRequestConflict, 409],
  [quotas.LimitRequestNotFound, 404],
  [quotas.LimitRequestDecided, 409],
  [quotas.LimitRequestMoved, 409],
  [quotas.RateRequestRefused, 400],
  [quotas.RateRequestOpen, 429],
  [quotas.RequestForbidden, 403],
  [quotas.QuotaAccountGone, 404],
  [quotas.LimitsRefused, 422],
  [inference.ModelNotFound, 404],
  [inference.ModelNotAllowed, 403],
  [inference.ModelNotReady, 503],
  [inference.ColdStartsFull, 503],
  [inference.AnswersFull, 503],
  [inference.EngineOverloaded, 429],
  [inference.InstancesUnreachable, 503],
  [inference.UpstreamBroken, 502],
  [inference.UpstreamTimeout, 504],
  [inference.WrongTask, 400],
  [inference.FundsSuspended, 402],
  [inference.SuspendedByOperator, 403],
  [edge.MalformedBody, 400],
  [edge.BodyNotUtf8, 400],
  [edge.BodyCompressed, 400],
  [edge.TextNotUnicode, 422],
  [edge.NestedTooDeep, 422],
  [edge.BodyStalled, 408],
  [edge.MethodNotAllowed, 405],
  [edge.HostMissing, 400],
  [edge.ExpectationUnknown, 417],
  [edge.RequestUnreadable, 400],
  [edge.HeadersTooLarge, 431],
  [edge.ChunkExtensionsTooLarge, 413],
  [edge.RequestTimedOut, 408],
  [edge.BodyMissing, 422],
  [edge.MalformedForm, 400],
  [edge.NoForm, 400],
  [edge.ExpiryOutOfRange, 422],
  [edge.FileMissing, 422],
  [edge.PartTooLarge, 413],
  [edge.PartRepeated, 422],
  [edge.SpeechFormatUnknown, 422],
  [edge.SchemaVariantMissing, 404],
  [edge.FieldMissing, 422],
  [edge.BadDataUri, 422],
  [edge.LengthsDiffer, 422],
  [edge.ImageNotEmbedded, 422],
  [edge.WebhookWithStream, 422],
  [webhooks.BadWebhookUrl, 422],
  [webhooks.WebhookRefused, 400],
  [webhooks.WebhookQueueFull, 429],
  [webhooks.WebhookAnswersFull, 429],
  [webhooks.DeliveryEmptied, 404],
  [webhooks.DeliveryNotFound, 404],
  [webhooks.DeliveryPending, 409],
  [webhooks.ResultsGone, 404],
  [webhooks.WebhookAccountGone, 404],
  [edge.BodyTooLarge, 413],
  [edge.BodiesFull, 503],
  [edge.BadRequest, 400],
  [edge.BadTime, 422],
  [BadRange, 422],
  [edge.ApiKeyNotFound, 404],
  [edge.RecordsAway, 503],
  [edge.Restarting, 503],
  [edge.NoSession, 404],
  [edge.CsrfRefused, 403],
]);

/** Characters of one part of a path. */
export const mostParamLength = 512;

/** The fields that a refused value stands in, where it is not the body. */
const queryParams: ReadonlySet<string> = new Set(["from", "to", "cursor", "after"]);

export interface RenderedError {
  readonly status: number;
  /** Names and values, in turn. */
  readonly headers: readonly string[];
  readonly body: string;
}

export function renderError(refusal: Refusal, dialect: Dialect, requestId: string): RenderedError {
  const { status, code, retryAfterSeconds, phase, etaSeconds } = refusal;
  const headers = ["content-type", "application/json; charset=utf-8"];
  if (status === 401) headers.push("www-authenticate", "Bearer");
  if (retryAfterSeconds !== undefined) {
    const seconds = Math.max(1, Math.ceil(retryAfterSeconds));
    headers.push("retry-after", String(seconds));
    if (status === 429) headers.push("ratelimit", `"api";r=0;t=${seconds}`);
  }
  // SDKs repeat 409 by themselves, and money does not come back by asking again.
  if (status === 402 || status === 409) headers.push("x-should-retry", "false");
  // What was announced and did not come may still come: it is no next request.
  if (code === "body_stalled") headers.push("connection", "close");
  if (phase !== undefined) headers.push("x-stoker-phase", phase);
  if (etaSeconds !== undefined) headers.push("x-stoker-eta", String(etaSeconds));
  return { status, headers, body: JSON.stringify(errorBody(refusal, dialect, requestId)) };
}

/** What Fastify throws, for a body or a query that does not fit its schema and for requests it cannot read. */
interface FrameworkError {
  readonly code?: string;
  readonly statusCode?: number;
  readonly validation?: readonly SchemaError[];
  readonly validationContext?: string;
}

/** `limitBytes`: of the route's bodies. */
export function refusalOf(error: unknown, limitBytes = bodyLimitBytes): Refusal {
  if (error instanceof ServiceError) return ofService(error);
  // Said by a store; a feature that can say more than "try again" says it itself.
  if (error instanceof Error && error.name === "DatabaseAway") return ofService(new accounts.AccountStoreAway(error));
  const { validation, validationContext, code, statusCode } = (error ?? {}) as FrameworkError;
  if (validation) {
    const detail = detailOf(validation, placeOf(validationContext));
    return refused(422, summary(detail), "validation_error", {
      detail,
      // Nothing but the body as a whole has no name.
      param: detail[0]?.loc.slice(1).join(".") || undefined,
    });
  }
  // A store that could not be asked, where the feature does not say it in words of its own.
  if (code === "store_away") return ofService(new edge.RecordsAway(error));
  // PostgreSQL's words for a NUL character: its texts cannot hold one.
  if (code === "22021" || code === "22P05") {
    return refused(422, "A text in the request holds a NUL character. Leave it out.", "validation_error", {
      detail: [{ loc: ["body"], msg: "a text holds a NUL character", type: "string_pattern" }],
    });
  }
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return ofService(new edge.BodyTooLarge(limitBytes));
  if (code === "FST_ERR_BAD_URL") {
    const message =
      "The path of this request cannot be read: a %-escape in it stands for no character. Encode it anew.";
    return refused(400, message, "bad_request", {});
  }
  if (code === "FST_ERR_MAX_PARAM_LENGTH") {
    const message = `A part of this path is longer than ${mostParamLength} characters, and no name here is. Check the path.`;
    return refused(414, message, "path_too_long", {});
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    return refused(statusCode, "The request could not be read. Check its headers and its length.", "bad_request", {});
  }
  return refused(500, "Something went wrong on our side. Tell your operator the request id.", "internal_error", {
    cause: error,
  });
}

const noPhase = { phase: undefined, etaSeconds: undefined };

function ofService(error: ServiceError): Refusal {
  const { message, code, param, retryAfterSeconds, cause } = error;
  const { phase, etaSeconds } = error instanceof inference.ModelNotReady ? error : noPhase;
  const status =
    error instanceof inference.EngineRefusal ? error.engineStatus : statusOf.get(error.constructor as ErrorClass);
  if (status === undefined)
    return refusalOf(new Error(`no status is known for ${error.constructor.name}`, { cause: error }));
  const isRetryable = status === 429 || status === 503;
  const facts = {
    param,
    phase,
    etaSeconds,
    cause,
    retryAfterSeconds: retryAfterSeconds ?? (isRetryable ? 1 : undefined),
  };
  if (status !== 422) return refused(status, message, code, facts);
  const isOfQuery = error instanceof edge.SpeechFormatUnknown && error.isOfQuery;
  const loc = [isOfQuery ? "query" : sideOf(param), ...(param?.split(".") ?? [])];
  const isMissing = error instanceof edge.BodyMissing || error instanceof edge.FieldMissing;
  const type = isMissing ? "missing" : "value_error";
  const msg = error instanceof edge.FieldMissing ? error.what : message;
  return refused(422, message, code, { ...facts, detail: [{ loc, msg, type }] });
}

function refused(status: number, message: string, code: string, facts: Partial<Refusal>): Refusal {
  return {
    status,
    message,
    code,
    param: facts.param,
    detail: facts.detail,
    retryAfterSeconds: facts.retryAfterSeconds,
    phase: facts.phase,
    etaSeconds: facts.etaSeconds,
    cause: facts.cause,
  };
}

function sideOf(param: string | undefined): Place {
  if (param === "idempotency-key") return "header";
  return param !== undefined && queryParams.has(param) ? "query" : "body";
}

function placeOf(context: string | undefined): Place {
  switch (context) {
    case "querystring":
      return "query";
    case "params":
      return "path";
    case "headers":
      return "header";
    default:
      return "body";
  }
}

function summary(detail: readonly Detail[]): string {
  return detail.map(({ loc, msg }) => `${loc.slice(1).join(".") || loc[0]}: ${msg}`).join("; ");
}
