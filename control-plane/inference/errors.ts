import { distance } from "fastest-levenshtein";
import { suspendedSentence } from "../../proto/suspend-reason.ts";
import { type ErrorFacts, forbidden, invalid, paymentRequired, ServiceError, unavailable } from "../service-error.ts";

/** A suggestion compares this many names of at most this length: a caller may send many unknown ones. */
const maxCompared = 200;
const maxComparedChars = 128;

export class ModelNotFound extends ServiceError {
  /** `usable`: models that the caller may use; one whose name differs in few letters is suggested. */
  constructor(model: string, usable: readonly { readonly name: string }[] = []) {
    const near = model.length > maxComparedChars ? undefined : nearest(model, usable.slice(0, maxCompared));
    super(
      "not_found",
      "model_not_found",
      `Model not found: ${shown(model)}. ${near ? `Did you mean ${near}? ` : ""}\`GET /v1/models\` lists the models you can use.`,
      { param: "model" },
    );
  }
}

/** The name that differs in the fewest letters, at most in a sixth of them. Letter case does not count. */
function nearest(name: string, known: readonly { readonly name: string }[]): string | undefined {
  const distances = known.map(({ name: one }) => ({ one, letters: distance(name.toLowerCase(), one.toLowerCase()) }));
  return distances.filter(({ one, letters }) => letters <= one.length / 6).sort((a, b) => a.letters - b.letters)[0]
    ?.one;
}

/** The scoped token does not list the model. Reported whether or not the model exists. */
export const modelNotAllowed = (model: string) =>
  forbidden(
    "model_not_allowed",
    `This token may not use the model ${shown(model)}. \`GET /v1/models\` lists those it may use.`,
    { param: "model" },
  );

/** The deployment exists, but no instance of it can take a request now. */
export class ModelNotReady extends ServiceError<{
  readonly phase: string;
  /** Expected time until an instance is ready; undefined: none is starting. */
  readonly etaSeconds: number | undefined;
}> {
  constructor(model: string, phase: string, retryAfterSeconds: number, etaSeconds?: number) {
    super("unavailable", "model_not_ready", `The model ${shown(model)} ${whyNotReady(phase, retryAfterSeconds)}`, {
      retryAfterSeconds,
      params: { phase, etaSeconds },
    });
  }
}

/** The model is starting, but the memory budget of waiting requests is used up. */
export const coldStartsFull = (model: string, retryAfterSeconds: number) =>
  unavailable(
    "cold_start_full",
    `The model ${shown(model)} is starting, and too many requests are waiting for it. Try again later.`,
    { retryAfterSeconds: Math.min(600, retryAfterSeconds) },
  );

/** The memory budget for buffered responses is used up. */
export const answersFull = () =>
  unavailable("answers_full", "The server's memory for buffered responses is full. Try again in a few seconds.", {
    retryAfterSeconds: 5,
  });

export class EngineOverloaded extends ServiceError {
  constructor(retryAfterSeconds: number) {
    super("rate_limited", "engine_overloaded", "Model busy, retry later", { retryAfterSeconds });
  }
}

/** All tried instances refused or were unreachable; the request did not run. */
export class InstancesUnreachable extends ServiceError {
  constructor(facts: ErrorFacts, why = "The model's instances are unreachable.") {
    super("unavailable", "model_unavailable", `${why} Try again in a few seconds.`, {
      retryAfterSeconds: 2,
      ...facts,
    });
  }
}

export const upstreamBroken = (facts: ErrorFacts = {}) =>
  new ServiceError(
    "upstream_failed",
    "upstream_error",
    "The model server stopped during the response. Only delivered tokens are billed. Send the request again.",
    facts,
  );

/** A complete response that was billed and cannot be read or stored. Another run would be billed again. */
export class UnusableAnswer extends ServiceError {
  constructor(cause: unknown) {
    super(
      "upstream_failed",
      "upstream_error",
      "The model server's response is not of the expected form, or too large.",
      {
        cause,
      },
    );
  }
}

/** Servers stopped while this request, or one like it, was running. */
export const requestStopsServer = (retryAfterSeconds: number) =>
  invalid(
    "request_stops_server",
    "Similar requests were running each time the model server stopped. Change the request, or try again later.",
    { retryAfterSeconds },
  );

export const upstreamTimeout = (facts: ErrorFacts = {}) =>
  new ServiceError(
    "upstream_timeout",
    "upstream_timeout",
    "The model's instance did not respond in time. Try again, perhaps with a lower max_tokens.",
    facts,
  );

/** The model has another task: its engine does not support the path. */
/** The model's server has no equivalent for a field of the request; the server of another model may have. */
export class FieldUnsupported extends ServiceError {
  constructor(param: string, advice = "Leave it out.") {
    super("bad_request", "unsupported_value", `This model does not support this value of ${param}. ${advice}`, {
      param,
    });
  }
}

export class WrongTask extends ServiceError {
  constructor({ name, task }: { readonly name: string; readonly task: string }) {
    super(
      "bad_request",
      "unsupported_task",
      `This endpoint does not support \`${name}\`, whose task is \`${task}\`. \`GET /models/${name}\` shows how to call it ` +
        "(`curl_inv`); `GET /models/list` shows the task of each model.",
      { param: "model" },
    );
  }
}

/** Suspended because of missing funds or an open payment matter. */
export const fundsSuspended = (reason: string) =>
  paymentRequired(
    "insufficient_quota",
    reason === "balance"
      ? `You need positive balance to do inference. ${suspendedSentence(reason)}`
      : suspendedSentence(reason),
  );

export const suspendedByOperator = () => forbidden("account_suspended", suspendedSentence("admin"));

const shown = (name: string) => (name.length > 200 ? `${name.slice(0, 200)}...` : name);

function whyNotReady(phase: string, retryAfterSeconds: number): string {
  const again = `Try again in ${retryAfterSeconds} s.`;
  switch (phase) {
    case "failed":
      return "has failed and will not start by itself. Its `fail_reason` says why and what to do: `GET /deploy/list`.";
    case "stopped":
    case "stopping":
      return `is ${phase}. Its owner can start it again: \`POST /deploy/{deploy_id}/start\`.`;
    case "no_capacity":
      return `has no capacity: no host can run an instance of it. ${again}`;
    case "unreachable":
    case "unknown":
    case "deployed":
    case "updating":
      return `has no ready instance. ${again}`;
    default:
      return `is ${phase}. ${again}`;
  }
}
