import { type ErrorKind, type ForeignCode, ServiceError } from "../service-error.ts";
import type { AttemptEnd } from "./attempt.ts";
import type { Completion } from "./completion.ts";
import { EngineOverloaded, upstreamBroken, upstreamTimeout, WrongTask } from "./errors.ts";

type EngineError = Extract<AttemptEnd, { kind: "engine-error" }>;

/** Statuses of an engine that are the caller's fault; any other one is an error of the engine or of this system. */
const callers: ReadonlyMap<number, ErrorKind> = new Map([
  [400, "bad_request"],
  [405, "unsupported"],
  [413, "too_large"],
  // A file type that the model does not support.
  [415, "bad_request"],
  [422, "invalid"],
]);

/** Converts an engine's error response: the caller's faults keep the engine's message, all others become an upstream error. */
export function engineError(
  { status, body, retryAfterSeconds }: EngineError,
  kind: Completion["kind"],
  model: { readonly name: string; readonly task: string; readonly isExternalServer?: boolean | undefined },
): ServiceError {
  const reported = read(body);
  if (model.isExternalServer && accountRefusal({ status, body }) !== undefined)
    return upstreamBroken({ cause: causeOf(status, reported) });
  // For text, 405 may refer to a feature such as tools; for other tasks it means that the path does not support POST.
  const isOtherMethod = status === 405 && kind !== "chat" && kind !== "text_completion";
  // Our own runtime's message names its own paths, which this API does not have.
  const isOtherTask =
    status === 501 || reported.code === "unsupported_task" || (status === 404 && isUnknownPath(reported));
  if (isOtherMethod || isOtherTask) return new WrongTask(model);
  const fault = reported.code === "voice_not_found" ? "not_found" : callers.get(status);
  if (fault !== undefined) {
    const message = reported.message ?? "The model's engine refused the request without a reason.";
    const known =
      fault === "bad_request" && reported.code === undefined && recognised.find(({ isIn }) => isIn(reported));
    if (known) return known.error(message, kind);
    return new ServiceError(fault, (reported.code as ForeignCode | undefined) ?? "invalid_request", message, {
      param: reported.param,
    });
  }
  if (status === 429) return new EngineOverloaded(retryAfterSeconds ?? 1);
  const cause = causeOf(status, reported);
  return status === 504 ? upstreamTimeout({ cause }) : upstreamBroken({ cause });
}

export const overflowCode = "context_length_exceeded";

/** Refusals that engines state in words of their own, or by a type. Our runtime sends the codes. */
const recognised: readonly {
  readonly isIn: (reported: Reported) => boolean;
  readonly error: (message: string, kind: Completion["kind"]) => ServiceError;
}[] = [
  {
    // vLLM that was started without a parser.
    isIn: ({ message = "" }) => message.includes("--tool-call-parser") && /tool[_ ]choice/.test(message),
    error: () =>
      new ServiceError(
        "bad_request",
        "tools_unsupported",
        "This model does not support tools. Remove `tools`, or use another model.",
        { param: "tools" },
      ),
  },
  {
    // llama.cpp's server by its type, older builds of it, vLLM and SGLang by their words.
    isIn: ({ type, message = "" }) =>
      type === "exceed_context_size_error" ||
      /context (?:length|size|window)|maximum (?:context|model) len|longer than the model|greater than max_model_len/i.test(
        message,
      ),
    error: (message, kind) =>
      new ServiceError("bad_request", overflowCode, message, {
        param: kind === "text_completion" ? "prompt" : kind === "chat" ? "messages" : "input",
      }),
  },
];

/** Errors of providers about the operator's account there: its key, its funds or its state. */
const accountCodes: ReadonlySet<string> = new Set([
  "insufficient_quota",
  "insufficient_balance",
  "billing_hard_limit_reached",
  "billing_not_active",
  "billing_error",
  "authentication_error",
  "invalid_api_key",
  "permission_error",
  "access_terminated",
  "account_deactivated",
  "organization_restricted",
]);
/** Messages of providers that use a general code. */
const accountMessages =
  /\bcredit balance is too low\b|\bapi key (?:not valid|expired|is invalid)\b|\bexceeded your current quota\b|\binsufficient (?:balance|credits?|funds)\b/i;

/**
 * How a provider refuses the operator's account: by a `code`, with 400 to 403 or 429, by a `status` from 401 to 403 alone, or only
 * in `words`, which may repeat what a customer sent. Undefined: it does not. Customers can do nothing about it.
 */
export function accountRefusal({
  status,
  body,
}: Pick<EngineError, "status" | "body">): "status" | "code" | "words" | undefined {
  const isStatus = status >= 401 && status <= 403;
  if (!isStatus && status !== 400 && status !== 429) return undefined;
  const { code, type, message = "" } = read(body);
  if ([code, type].some((name) => name !== undefined && accountCodes.has(name))) return "code";
  if (isStatus) return "status";
  return accountMessages.test(message) ? "words" : undefined;
}

/** True for the 404 of our runtime and of FastAPI for an unknown path. An unknown model is an error of this system. */
const isUnknownPath = ({ code, message }: Reported) => code === "not_found" || message === "Not Found";

const causeOf = (status: number, { message = "" }: Reported): Error =>
  new Error(`the engine responded with ${status}: ${message.slice(0, 500)}`);

interface Reported {
  readonly message?: string;
  readonly code?: string;
  readonly type?: string;
  readonly param?: string;
}

/** Reads OpenAI's format, that of an older vLLM without the envelope, or a bare `detail`. */
function read(body: Buffer): Reported {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    return {};
  }
  if (typeof value !== "object" || value === null) return {};
  const { error, detail } = value as { error?: unknown; detail?: unknown };
  if (typeof error === "string") return { message: error };
  const from = (typeof error === "object" && error !== null ? error : value) as Record<string, unknown>;
  const text = (key: string) => (typeof from[key] === "string" ? { [key]: from[key] as string } : {});
  return {
    ...(typeof detail === "string" ? { message: detail } : {}),
    ...text("message"),
    ...text("code"),
    ...text("type"),
    ...text("param"),
  };
}
