// Declares endpoints: the schema is validation, type and description; the handler calls one feature and renders.
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods, RouteHandlerMethod } from "fastify";
import { type Static, type TSchema, Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import type { Authenticator, Caller } from "../../accounts/caller.ts";
import { notAMember, notForOperators, scopeNotAllowed } from "../../accounts/errors.ts";
import { secondFactorRequired } from "../../accounts/factor-errors.ts";
import type { Idempotency } from "../../accounts/idempotency.ts";
import type { Members } from "../../accounts/members.ts";
import type { Operator } from "../../accounts/operator.ts";
import { type Right, roleRefusal } from "../../accounts/permissions.ts";
import { checkRecentSignIn, type Sessions } from "../../accounts/sessions.ts";
import { authenticate, nobody } from "../accounts/authenticate.ts";
import { enterBySession, sessionCookieOf } from "../accounts/session.ts";
import { coerceForm, unwrapForm } from "../body/form-body.ts";
import { bodyLimitBytes, smallBodyBytes } from "../body/json-body.ts";
import type { AddressLimits } from "../connections/address-limits.ts";
import { takesActAs, takesIdempotencyKey } from "../docs/open-api.ts";
import type { Dialect } from "../errors/error-body.ts";
import { errorResponses } from "../errors/error-responses.ts";
import { bodyMissing } from "../errors/errors.ts";
import { type OnceRoute, once } from "../inference/idempotency.ts";
import type { InferenceEntry, InferenceHandler } from "../inference/inference-entry.ts";
import { actAsHeader } from "./act-of.ts";
import { aliasesOf } from "./aliases.ts";
import type { RouteMeter } from "./edge-metrics.ts";
import { RequestState, type StateDeps } from "./request-state.ts";

/** The parameters that a path names: `:name`, or `*` at its end. */
type PathParams<Path extends string> = { readonly [Name in ParamNames<Path>]: string };
type ParamNames<Path extends string> = Path extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer More}`
    ? Name | ParamNames<`/${More}`>
    : Rest
  : Path extends `${string}*`
    ? "*"
    : never;

interface Input<Body, Query, Params> {
  readonly body: Body;
  readonly query: Query;
  readonly params: Params;
  /** `nobody` on a public endpoint. */
  readonly caller: Caller;
  readonly reply: FastifyReply;
}

/** Properties that the endpoints of a group share, unless one sets its own. */
interface GroupOptions {
  readonly tag: string;
  /** `inference`: a key or a scoped token; `key`: the account itself; `admin`: the operator's account. */
  readonly access: "public" | "inference" | "key" | "admin";
  readonly dialect?: Dialect;
  /** Dialect of one request, where clients of several share the path; undefined: `dialect`. */
  readonly dialectOf?: (headers: IncomingHttpHeaders) => Dialect | undefined;
  /** Omits the endpoint from the OpenAPI description: it is a page for people. */
  readonly isHidden?: boolean;
  /** Requires sessions to have signed in within the last minutes. Keys are not affected. */
  readonly needsRecentSignIn?: boolean;
  /** Right that the caller needs instead of the one of its method: `read` for GET, `change` otherwise. */
  readonly right?: Right;
  /** A GET that an operator may send for another account (`X-Stoker-Act-As`). Shows no secrets, and no files, prompts or responses. */
  readonly isOpenToOperators?: boolean;
  /** Open to sessions whose account must set up a second factor first. */
  readonly isForEnrolling?: boolean;
  /** Sends `cache-control: no-store`. */
  readonly holdsSecrets?: boolean;
  /** Replays the first response for a repeated `Idempotency-Key`; a raw route does so itself. */
  readonly idempotent?: boolean;
  /** Creates something that costs money. A repeat is refused instead of run when the first attempt may have created it. */
  readonly isPaid?: boolean;
  /** Accepted bodies; default `json`. Values of forms are converted to the types of their fields. */
  readonly takes?: "json" | "forms" | "both";
  /** Name of a form part that may contain the fields as JSON. */
  readonly wrappedIn?: string;
  /** Public, and checks a secret: counted by address before its body is read. */
  readonly isAttempt?: boolean;
  /** Public, but such a request needs a credential of an account. */
  readonly isPrivate?: (request: FastifyRequest) => boolean;
  /** Answers from memory and never with 503. */
  readonly isFromMemory?: boolean;
}

interface Operation<Body extends TSchema, Query extends TSchema> extends Partial<GroupOptions> {
  readonly summary: string;
  /** Default: 10 MiB for inference, 16 KiB for everything else. */
  readonly bodyLimitBytes?: number;
  readonly body?: Body;
  readonly query?: Query;
  /** Default: the path's parameters, as any strings. */
  readonly params?: TSchema;
  /** Undefined: an empty object, whatever the handler returns. */
  readonly answer?: TSchema;
  /** When the response is 202 without a body, for the API description. */
  readonly accepted?: string;
  /** Statuses of refusals beside 401, 403, 422 and 503 and, with a body, 400 and 413. */
  readonly refusals?: readonly number[];
}

type AnyEndpoint = GroupOptions & Operation<TSchema, TSchema> & { readonly method: HTTPMethods; readonly path: string };
export type InferenceEndpoint = AnyEndpoint & {
  readonly method: "POST";
  readonly access: "inference";
  readonly body: TSchema;
};

type Declare = <const Path extends string, Body extends TSchema, Query extends TSchema>(
  path: Path,
  endpoint: Operation<Body, Query> & {
    handler(input: Input<Static<Body>, Static<Query>, PathParams<Path>>): unknown;
  },
) => void;

export interface EndpointDeps extends StateDeps {
  readonly inference: InferenceEntry;
  readonly idempotency: Idempotency;
  readonly authenticator: Authenticator;
  readonly addresses: AddressLimits;
  readonly sessions: Sessions;
  readonly actAs: Operator["actAs"];
  readonly members: Pick<Members, "actAs">;
}

export interface Endpoints {
  /** Returns functions that declare endpoints with these properties in common. */
  with(options: GroupOptions): Readonly<Record<"get" | "post" | "put" | "patch" | "delete", Declare>>;
  /** An inference POST with a JSON body; Fastify only chooses the route. */
  addInference(endpoint: InferenceEndpoint, handler: InferenceHandler): void;
  /** A route that writes the raw response itself. */
  addRaw(endpoint: AnyEndpoint, handler: RouteHandlerMethod): void;
}

export function endpointsOf(app: FastifyInstance, deps: EndpointDeps): Endpoints {
  function register(endpoint: AnyEndpoint, handler: RouteHandlerMethod): void {
    const { method, path, access, dialect = "service", query, body, takes = "json" } = endpoint;
    const usualLimit = access === "inference" && body ? bodyLimitBytes : smallBodyBytes;
    const meter = deps.metrics.meter(String(method), path);

    for (const url of [path, ...aliasesOf(path)]) {
      app.route({
        method,
        url,
        schema: schemaOf(endpoint, url !== path),
        onRequest: entering(endpoint, meter, deps),
        config: { takesForms: takes !== "json", dialect },
        bodyLimit: endpoint.bodyLimitBytes ?? usualLimit,
        preValidation: [
          ...(body ? [needsBody] : []),
          ...(endpoint.wrappedIn === undefined ? [] : [unwrapForm(endpoint.wrappedIn)]),
          ...(body && takes !== "json" ? [coerceForm(body)] : []),
          ...(query ? [coerceQuery(query)] : []),
        ],
        handler,
      });
    }
  }

  /** Answers with what the operation returns. */
  function answering<Body extends TSchema, Query extends TSchema>(
    endpoint: AnyEndpoint,
    operation: (input: Input<Static<Body>, Static<Query>, never>) => unknown,
  ): RouteHandlerMethod {
    return async (request, reply) => {
      const state = request.state as RequestState;
      const { body, query, params } = request as unknown as { body: never; query: never; params: never };
      const caller = state.caller ?? nobody;
      const run = async () => {
        const answer = await operation({ body, query, params, caller, reply });
        return endpoint.answer ? answer : {};
      };
      const answer = endpoint.idempotent
        ? await once(deps, routeOf(endpoint), request, reply, caller, run)
        : await run();
      if (endpoint.holdsSecrets) reply.header("cache-control", "no-store");
      if (reply.sent) return reply;
      return reply.headers(pairs(state.headers())).send(answer);
    };
  }

  return {
    with(options) {
      const declare =
        (method: HTTPMethods): Declare =>
        (path, { handler, ...operation }) => {
          const endpoint = { ...options, ...operation, method, path };
          register(endpoint, answering(endpoint, handler));
        };
      return {
        get: declare("GET"),
        post: declare("POST"),
        put: declare("PUT"),
        patch: declare("PATCH"),
        delete: declare("DELETE"),
      };
    },
    addInference(endpoint, handler) {
      const { method, path, dialect = "service", bodyLimitBytes: limit = bodyLimitBytes, body } = endpoint;
      const meter = deps.metrics.meter(method, path);
      const post = { meter, dialect, bodyLimitBytes: limit, body, handler };
      for (const url of [path, ...aliasesOf(path)]) {
        deps.inference.add(url, post);
        app.route({
          method,
          url,
          schema: schemaOf(endpoint, url !== path),
          config: { dialect },
          // Hijacked before anything is read.
          onRequest: (request, reply) => {
            reply.hijack();
            deps.inference.serve(post, request.raw, reply.raw, request.query);
          },
          handler: () => {},
        });
      }
    },
    addRaw: register,
  };
}

/** Finds the caller of a request and checks its access. */
function entering(endpoint: AnyEndpoint, meter: RouteMeter, deps: EndpointDeps): Entering {
  const { isPrivate, ...general } = endpoint;
  if (!isPrivate) return enteringOne(general, meter, deps);
  const open = enteringOne(general, meter, deps);
  const own = enteringOne({ ...general, access: "key" }, meter, deps);
  return (request, reply, done) => (isPrivate(request) ? own : open)(request, reply, done);
}

type Entering = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

function enteringOne(endpoint: AnyEndpoint, meter: RouteMeter, deps: EndpointDeps): Entering {
  const { method, access, dialect = "service" } = endpoint;
  const needed = neededOf(endpoint);
  return (request, reply, done) => {
    const { headers } = request;
    const spoken = endpoint.dialectOf?.(headers) ?? dialect;
    const state = new RequestState(deps, meter, spoken, request.id, headers, reply.raw);
    state.isSecure = request.protocol === "https";
    state.isInference = access === "inference" && method !== "GET";
    request.state = state;
    const enter = (caller: Caller): void => {
      state.credential = caller;
      const other = access === "public" ? undefined : headers[actAsHeader];
      if (other === undefined) {
        state.caller = caller;
        state.startTrace(headers);
        done(scopeRefusal(access, caller) ?? roleRefusal(needed, caller));
        return;
      }
      callerActing(endpoint, needed, request, String(other) as AccountId, caller, deps).then((acting) => {
        state.caller = acting;
        done();
      }, done);
    };
    if (access === "public") {
      try {
        deps.addresses.take(request.ip);
        if (endpoint.isAttempt) deps.addresses.attempt(request.ip);
        enter(nobody);
      } catch (error) {
        done(error as Error);
      }
      return;
    }
    // Listing models is not inference, although scoped tokens may do it too.
    const cookie = access === "inference" && method !== "GET" ? undefined : sessionCookieOf(request);
    if (cookie !== undefined) {
      enterBySession(deps.sessions, deps.addresses, request, cookie)
        .then((session) => {
          state.session = session;
          if (session.mustEnrol && !endpoint.isForEnrolling) throw secondFactorRequired();
          if (endpoint.needsRecentSignIn) checkRecentSignIn(session, deps.unixMs());
          return session.caller;
        })
        .then(enter, done);
      return;
    }
    try {
      state.address = request.ip;
      const caller = authenticate(deps, headers, request.ip, request.raw.socket);
      if (caller instanceof Promise) caller.then(enter, done);
      else enter(caller);
    } catch (error) {
      done(error as Error);
    }
  };
}

/** A member in their organisation, or an operator who reads an account. Rejects with the refusal of any other caller. */
async function callerActing(
  endpoint: AnyEndpoint,
  needed: Right | undefined,
  request: FastifyRequest,
  other: AccountId,
  caller: Caller,
  { members, actAs }: EndpointDeps,
): Promise<Caller> {
  if (request.state?.session) {
    const member = await members.actAs(caller, other);
    const refusal = member && roleRefusal(needed, member);
    if (refusal) throw refusal;
    if (member) return member;
    if (!caller.isAdmin) throw notAMember();
  }
  const refusal = roleRefusal("operate", caller) ?? (endpoint.isOpenToOperators ? undefined : notForOperators());
  if (refusal) throw refusal;
  return actAs(other, { by: caller.account, ip: request.ip, note: "" });
}

function needsBody(request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  done(request.body === undefined ? bodyMissing() : undefined);
}

function scopeRefusal(access: GroupOptions["access"], caller: Caller): Error | undefined {
  return caller.via === "jwt" && access !== "inference" && access !== "public" ? scopeNotAllowed() : undefined;
}

/** Right that the endpoint requires; undefined: none. */
function neededOf({ access, method, right }: Pick<AnyEndpoint, "access" | "method" | "right">): Right | undefined {
  if (access === "public") return undefined;
  if (access === "admin") return "operate";
  if (access === "inference") return method === "GET" ? "listModels" : "infer";
  return right ?? (method === "GET" ? "read" : "change");
}

function routeOf(endpoint: AnyEndpoint): OnceRoute {
  const { method, path, dialect = "service", holdsSecrets = false, isPaid = false } = endpoint;
  return { name: `${String(method)} ${path}`, dialect, holdsSecrets, isPaid };
}

export function pairs(list: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let i = 0; i < list.length; i += 2) headers[list[i] as string] = list[i + 1] as string;
  return headers;
}

const consumed = {
  json: ["application/json"],
  forms: ["multipart/form-data"],
  both: ["application/json", "multipart/form-data"],
};

function schemaOf(endpoint: AnyEndpoint, isAlias: boolean): object {
  const { summary, tag, access, body, query, dialect = "service", refusals = [] } = endpoint;
  const { answer = Type.Object({}), params = paramsOf(endpoint.path) } = endpoint;
  const right = neededOf(endpoint.isPrivate ? { ...endpoint, access: "key" } : endpoint);
  const statuses = [
    ...(access === "public" ? [] : [401, 403]),
    ...(body ? [400, 413] : []),
    ...(endpoint.isFromMemory ? [] : [503]),
    ...[422, ...refusals],
  ];
  return {
    summary,
    tags: [tag],
    hide: isAlias || endpoint.isHidden === true,
    security: access === "public" ? [] : [{ bearer: [] }, { "xi-api-key": [] }, { "x-api-key": [] }],
    ...(body ? { body, consumes: consumed[endpoint.takes ?? "json"] } : {}),
    ...(query ? { querystring: query } : {}),
    ...(params ? { params } : {}),
    ...(endpoint.idempotent ? { [takesIdempotencyKey]: true } : {}),
    ...(endpoint.isOpenToOperators ? { [takesActAs]: true } : {}),
    ...(right === undefined ? {} : { "x-right": right }),
    response: {
      200: answer,
      ...(endpoint.accepted === undefined ? {} : { 202: Type.Null({ description: endpoint.accepted }) }),
      ...errorResponses(statuses, dialect),
    },
  };
}

function paramsOf(path: string): TSchema | undefined {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name]) => name as string);
  return names.length > 0 ? Type.Object(Object.fromEntries(names.map((name) => [name, Type.String()]))) : undefined;
}

/**
 * Converts query values, which arrive as text, to the number or boolean type of their field. Bodies are not converted: there `"12"`
 * is a string.
 */
function coerceQuery(schema: TSchema) {
  const properties = (schema as { properties?: Record<string, { type?: unknown }> }).properties ?? {};
  const wanted = Object.entries(properties);
  return (request: FastifyRequest, _reply: FastifyReply, done: () => void): void => {
    const query = request.query as Record<string, unknown>;
    for (const [key, { type }] of wanted) {
      const text = query[key];
      if (typeof text !== "string") continue;
      if (type === "boolean" && truths.has(text)) query[key] = truths.get(text);
      else if ((type === "integer" || type === "number") && /^-?\d+(\.\d+)?$/.test(text)) query[key] = Number(text);
    }
    done();
  };
}

const truths: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["True", true],
  ["1", true],
  ["false", false],
  ["False", false],
  ["0", false],
]);
