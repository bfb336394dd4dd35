// The short way of an inference POST: what its route does, without Fastify's router, hooks and parsers around it, which cost
// as much CPU as keys, money and metering together (docs/BENCH.md). One edge all the same: state, authentication, JSON
// reader, validator, relay and error renderer are the route's own; the first request of a path takes the route and teaches
// the validator that Fastify compiled. Whatever is unusual about a request takes the route as well.
import type { IncomingMessage, ServerResponse } from "node:http";
import { randomId } from "../../proto/ids.ts";
import type { Authenticator, Caller } from "../accounts/caller.ts";
import { authenticate } from "./authenticate.ts";
import type { Dialect } from "./error-body.ts";
import { bodyLimitBytes, type ReadBody, readJson } from "./json-body.ts";
import { receiveBody } from "./receive-body.ts";
import { refusalOf, renderError } from "./render-error.ts";
import { type RequestMeter, RequestState, type StateDeps } from "./request-state.ts";

export interface Lesson {
  readonly meter: RequestMeter;
  readonly dialect: Dialect;
  readonly validate: { (body: unknown): unknown; readonly errors?: unknown };
  readonly relay: (body: Record<string, unknown>, read: ReadBody, state: RequestState, res: ServerResponse) => void;
}

export class RelayFront {
  isOpen = true;
  readonly #lessons = new Map<string, Lesson>();
  readonly #deps: StateDeps & { readonly authenticator: Authenticator };

  constructor(deps: StateDeps & { readonly authenticator: Authenticator }) {
    this.#deps = deps;
  }

  knows(url: string): boolean {
    return this.#lessons.has(url);
  }

  learn(url: string, lesson: Lesson): void {
    this.#lessons.set(url, lesson);
  }

  /** False: not for the short way. */
  take(req: IncomingMessage, res: ServerResponse): boolean {
    const lesson = this.#lessons.get(req.url as string);
    if (!lesson || !this.isOpen || req.method !== "POST" || !isUsual(req)) return false;
    const state = new RequestState(this.#deps, lesson.meter, lesson.dialect, randomId(24), req.headers, res);
    const read = (caller: Caller) => {
      state.caller = caller;
      receiveBody(req, state, bodyLimitBytes, (error, bytes) => {
        try {
          if (!bytes) throw error;
          relay(lesson, bytes, state, res);
        } catch (error) {
          refuse(error, state, res);
        }
      });
    };
    try {
      const ip = req.socket.remoteAddress ?? "";
      const caller = authenticate(this.#deps.authenticator, req.headers, ip, req.socket);
      if (caller instanceof Promise) caller.then(read, (error: unknown) => refuse(error, state, res));
      else read(caller);
    } catch (error) {
      refuse(error, state, res);
    }
    return true;
  }
}

/** A body of a known, allowed length, said to be JSON or nothing; nothing to be kept of its answer. */
function isUsual({ headers }: IncomingMessage): boolean {
  const length = Number(headers["content-length"]);
  const type = headers["content-type"];
  return (
    length > 0 &&
    length <= bodyLimitBytes &&
    headers.expect === undefined &&
    headers["idempotency-key"] === undefined &&
    headers["transfer-encoding"] === undefined &&
    headers["content-encoding"] === undefined &&
    (type === undefined || type.startsWith("application/json"))
  );
}

function relay(lesson: Lesson, bytes: Buffer, state: RequestState, res: ServerResponse): void {
  const { value, exact } = readJson(bytes);
  if (lesson.validate(value) === false)
    throw Object.assign(new Error("the body does not fit its schema"), {
      validation: lesson.validate.errors,
      validationContext: "body",
    });
  lesson.relay(value as Record<string, unknown>, { bytes, exact }, state, res);
}

function refuse(error: unknown, state: RequestState, res: ServerResponse): void {
  const refusal = refusalOf(error);
  state.refusal = refusal;
  if (state.isClosed) return;
  const { status, headers, body } = renderError(refusal, state.dialect, state.requestId);
  res.writeHead(status, [...headers, "content-length", String(Buffer.byteLength(body)), ...state.headers()]);
  res.end(body);
}
