import { type ErrorKind, ServiceError } from "../service-error.ts";
import type { AttemptEnd } from "./attempt.ts";
import type { Completion } from "./completion.ts";
import { EngineOverloaded, upstreamBroken, upstreamTimeout, WrongTask } from "./errors.ts";

type EngineError = Extract<AttemptEnd, { kind: "engine-error" }>;

/** Statuses of engines that are the caller's fault; any other one is the engine's or ours. */
const callers: ReadonlyMap<number, ErrorKind> = new Map([
  [400, "bad_request"],
  [405, "unsupported"],
  [413, "too_large"],
  // A file of a type that the model does not read.
  [415, "bad_request"],
  [422, "invalid"],
]);

/** An engine's error answer in our words: the caller's faults with the engine's own message, the rest as a broken upstream. */
export function engineError(
  { status, body, retryAfterSeconds }: EngineError,
  kind: Completion["kind"],
  model: { readonly name: string; readonly task: string },
): ServiceError {
  const told = read(body);
  // Text alone has requests that only some models take, tools for one; elsewhere it is the path that takes no POST.
  const isOtherMethod = status === 405 && kind !== "chat" && kind !== "text_completion";
  // Our own runtime names paths of its own, which are not this interface's.
  const isOtherTask = status === 501 || told.code === "unsupported_task" || (status === 404 && isUnknownPath(told));
  if (isOtherMethod || isOtherTask) return new WrongTask(model);
  const fault = told.code === "voice_not_found" ? "not_found" : callers.get(status);
  if (fault !== undefined) {
    const message = told.message ?? "The model's engine refused the request without saying why.";
    return new ServiceError(fault, told.code ?? "invalid_request", message, { param: told.param });
  }
  if (status === 429) return new EngineOverloaded(retryAfterSeconds ?? 1);
  const cause = new Error(`the engine answered ${status}: ${(told.message ?? "").slice(0, 500)}`);
  return status === 504 ? upstreamTimeout({ cause }) : upstreamBroken({ cause });
}

/** The engine has no such path, as ours and FastAPI's say it; a model that it does not know is our own trouble. */
const isUnknownPath = ({ code, message }: Told) => code === "not_found" || message === "Not Found";

interface Told {
  readonly message?: string;
  readonly code?: string;
  readonly param?: string;
}

/** OpenAI's shape, or an older vLLM's without the envelope, or a bare `detail`. */
function read(body: Buffer): Told {
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
    ...text("param"),
  };
}
