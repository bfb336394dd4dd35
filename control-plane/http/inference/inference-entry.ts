// Entry of every inference POST with a JSON body: state, authentication, body, validation, relay. The server selects it by URL,
// without Fastify's router, hooks and parsers, which cost as much CPU as keys, money and metering together (docs/BENCH.md).
// Fastify's routes describe these endpoints and call `serve` for URLs that only its router matches: a query, a trailing slash.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { TSchema } from "typebox";
import { randomId } from "../../../proto/ids.ts";
import type { Caller } from "../../accounts/caller.ts";
import { notForOperators } from "../../accounts/errors.ts";
import { roleRefusal } from "../../accounts/permissions.ts";
import { authenticate, type Entrance } from "../accounts/authenticate.ts";
import { drainBody } from "../body/drain-body.ts";
import { type ReadBody, readJson, refuseCompressed } from "../body/json-body.ts";
import { receiveBody } from "../body/receive-body.ts";
import type { ClientOf } from "../connections/client-address.ts";
import { actAsHeader } from "../core/act-of.ts";
import type { RouteMeter } from "../core/edge-metrics.ts";
import { RequestState, type StateDeps } from "../core/request-state.ts";
import type { Dialect } from "../errors/error-body.ts";
import { bodyMissing } from "../errors/errors.ts";
import { refusalOf } from "../errors/render-error.ts";
import { writeRefusal } from "../errors/write-refusal.ts";
import type { KeyedInput } from "./idempotency.ts";

/** A request with a validated body. */
export interface InferenceRequest extends KeyedInput {
  readonly body: Record<string, unknown>;
  readonly readBody: ReadBody;
}

export type InferenceHandler = (request: InferenceRequest, state: RequestState, res: ServerResponse) => void;

export interface InferencePost {
  readonly meter: RouteMeter;
  readonly dialect: Dialect;
  readonly bodyLimitBytes: number;
  readonly body: TSchema;
  readonly handler: InferenceHandler;
}

/** `errors`: Ajv's errors of the last value. */
export type Validate = { (body: unknown): unknown; errors?: unknown };

export interface InferenceEntryDeps extends StateDeps, Entrance {
  readonly clientOf: ClientOf;
  /** Called at the first request of a path. */
  readonly compile: (body: TSchema) => Validate;
}

export class InferenceEntry {
  /** False: leave all requests to Fastify, which responds with 503 while it closes. */
  isOpen = true;
  readonly #posts = new Map<string, InferencePost>();
  readonly #validators = new Map<TSchema, Validate>();
  readonly #deps: InferenceEntryDeps;

  constructor(deps: InferenceEntryDeps) {
    this.#deps = deps;
  }

  add(url: string, post: InferencePost): void {
    this.#posts.set(url, post);
  }

  /** Returns false if the path is not one of these. */
  take(req: IncomingMessage, res: ServerResponse): boolean {
    const post = req.method === "POST" && this.isOpen ? this.#posts.get(req.url as string) : undefined;
    if (post) this.serve(post, req, res, {});
    return post !== undefined;
  }

  serve(post: InferencePost, req: IncomingMessage, res: ServerResponse, query: unknown): void {
    const { headers } = req;
    const client = this.#deps.clientOf(req);
    const state = new RequestState(this.#deps, post.meter, post.dialect, randomId(24), headers, res);
    state.isSecure = client.isSecure;
    state.isInference = true;
    const refuse = (error: unknown): void => {
      const refusal = refusalOf(error, post.bodyLimitBytes);
      state.refusal = refusal;
      if (refusal.status === 413) drainBody(req, () => writeRefusal(refusal, state, res));
      else writeRefusal(refusal, state, res);
    };
    const begin = (caller: Caller): void => {
      state.caller = caller;
      state.startTrace(headers);
      const forbidden = headers[actAsHeader] === undefined ? roleRefusal("infer", caller) : notForOperators();
      if (forbidden) {
        refuse(forbidden);
        return;
      }
      receiveBody(req, state, post.bodyLimitBytes, (error, bytes) => {
        try {
          if (!bytes) throw error;
          refuseCompressed(headers);
          if (bytes.length === 0) throw bodyMissing();
          const { value, exact } = readJson(bytes);
          const body = value as Record<string, unknown>;
          const named = body?.["model"];
          if (typeof named === "string") state.namedModel = named;
          this.#validate(post.body, value);
          post.handler({ headers, params: {}, query, body, readBody: { bytes, exact } }, state, res);
        } catch (error) {
          refuse(error);
        }
      });
    };
    try {
      state.address = client.address;
      const caller = authenticate(this.#deps, headers, client.address, req.socket);
      if (caller instanceof Promise) caller.then(begin, refuse);
      else begin(caller);
    } catch (error) {
      refuse(error);
    }
  }

  #validate(schema: TSchema, value: unknown): void {
    let validate = this.#validators.get(schema);
    if (!validate) {
      validate = this.#deps.compile(schema);
      this.#validators.set(schema, validate);
    }
    if (validate(value) !== false) return;
    throw Object.assign(new Error("the body does not fit its schema"), {
      validation: validate.errors,
      validationContext: "body",
    });
  }
}
