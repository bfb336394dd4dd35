import { suspendedSentence } from "../../proto/suspend-reason.ts";
import { type ErrorFacts, ServiceError } from "../service-error.ts";

export class ModelNotFound extends ServiceError {
  readonly code = "model_not_found";
  constructor(model: string) {
    super(`Model not found: ${shown(model)}. \`GET /v1/models\` lists the models you can use.`, { param: "model" });
  }
}

/** A scoped token that names other models. Told before whether there is such a model. */
export class ModelNotAllowed extends ServiceError {
  readonly code = "model_not_allowed";
  constructor(model: string) {
    super(`This token may not use the model ${shown(model)}. \`GET /v1/models\` lists those it may use.`, {
      param: "model",
    });
  }
}

/** The deployment exists, but no instance of it can take a request now. */
export class ModelNotReady extends ServiceError {
  readonly code = "model_not_ready";
  readonly phase: string;
  /** Until an instance is expected to serve; undefined: none is known to come. */
  readonly etaSeconds: number | undefined;
  constructor(model: string, phase: string, retryAfterSeconds: number, etaSeconds?: number) {
    super(`The model ${shown(model)} ${whyNotReady(phase, retryAfterSeconds)}`, { retryAfterSeconds });
    this.phase = phase;
    this.etaSeconds = etaSeconds;
  }
}

/** The model would come, but requests of a size that memory allows wait for it, and for others, already. */
export class ColdStartsFull extends ServiceError {
  readonly code = "cold_start_full";
  constructor(model: string, retryAfterSeconds: number) {
    super(
      `The model ${shown(model)} is being started, and no more requests can wait for it here. Send the request again later.`,
      { retryAfterSeconds: Math.min(600, retryAfterSeconds) },
    );
  }
}

/** Of an answer that must be kept whole here, before it is handed on. */
export class AnswersFull extends ServiceError {
  readonly code = "answers_full";
  constructor() {
    super(
      "This server keeps as many answers as its memory allows, and this one found no room among them. Send the request again later.",
      { retryAfterSeconds: 5 },
    );
  }
}

export class EngineOverloaded extends ServiceError {
  readonly code = "engine_overloaded";
  constructor(retryAfterSeconds: number) {
    super("Model busy, retry later", { retryAfterSeconds });
  }
}

/** Every instance that was tried refused or could not be reached; nothing ran. */
export class InstancesUnreachable extends ServiceError {
  readonly code = "model_unavailable";
  constructor(facts: ErrorFacts, why = "The model's instances cannot be reached at the moment.") {
    super(`${why} Try again in a few seconds.`, {
      retryAfterSeconds: 2,
      ...facts,
    });
  }
}

export class UpstreamBroken extends ServiceError {
  readonly code = "upstream_error";
  constructor(facts: ErrorFacts = {}) {
    super("The model's instance broke off the answer. What was not delivered is not billed; send it again.", facts);
  }
}

export class UpstreamTimeout extends ServiceError {
  readonly code = "upstream_timeout";
  constructor(facts: ErrorFacts = {}) {
    super("The model's instance stopped answering. Send the request again, perhaps with a lower max_tokens.", facts);
  }
}

/** A model of another task: its engine has no such path. */
export class WrongTask extends ServiceError {
  readonly code = "unsupported_task";
  constructor({ name, task }: { readonly name: string; readonly task: string }) {
    super(
      `This endpoint is not for \`${name}\`, whose task is \`${task}\`. \`GET /models/${name}\` shows how it is called ` +
        "(`curl_inv`); `GET /models/list` shows the task of each model.",
      { param: "model" },
    );
  }
}

/** The engine understood the request and turned it down: its own status and words, for the edge to render. */
export class EngineRefusal extends ServiceError {
  readonly code: string;
  readonly engineStatus: number;
  readonly type: string | undefined;
  constructor(
    engineStatus: number,
    message: string,
    code: string,
    type: string | undefined,
    param: string | undefined,
  ) {
    super(message, param === undefined ? {} : { param });
    this.engineStatus = engineStatus;
    this.code = code;
    this.type = type;
  }
}

/** Suspended for want of money, or until a payment matter is settled. */
export class FundsSuspended extends ServiceError {
  readonly code = "insufficient_quota";
  constructor(reason: string) {
    super(
      reason === "balance"
        ? `You need positive balance to do inference. ${suspendedSentence(reason)}`
        : suspendedSentence(reason),
    );
  }
}

export class SuspendedByOperator extends ServiceError {
  readonly code = "account_suspended";
  constructor() {
    super(suspendedSentence("admin"));
  }
}

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
      return `waits for room: no host can take an instance of it at the moment. ${again}`;
    case "unreachable":
    case "unknown":
    case "deployed":
    case "updating":
      return `has no ready instance at the moment. ${again}`;
    default:
      return `is ${phase}. ${again}`;
  }
}
