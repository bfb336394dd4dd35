// The public edge: parse, authenticate, call one feature, render. Each subject folder holds its routes, schemas and renderers.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Server as SecureServer } from "node:https";
import { fastifyCookie } from "@fastify/cookie";
import swagger from "@fastify/swagger";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { TSchema } from "typebox";
import { Deadlines } from "../../../proto/deadlines.ts";
import { randomId } from "../../../proto/ids.ts";
import { steadyTime } from "../../../proto/steady-time.ts";
import type { Authenticator } from "../../accounts/caller.ts";
import type { Idempotency } from "../../accounts/idempotency.ts";
import type { Dashboards } from "../../agent-instances/dashboards.ts";
import { spineOfLines } from "../../batches/line-spine.ts";
import type { Dial } from "../../fleet/dial.ts";
import { defaultLimits } from "../../inference/attempt.ts";
import type { ByteBudget } from "../../inference/byte-budget.ts";
import type { Spine } from "../../inference/complete.ts";
import { LiveMetrics } from "../../inference/live-metrics.ts";
import { RefusedRequests } from "../../inference/refused-requests.ts";
import { createSpineMetrics } from "../../inference/spine-metrics.ts";
import { TargetHealth } from "../../inference/target-health.ts";
import { createUpstreams } from "../../inference/upstreams.ts";
import { addLoginPages } from "../accounts/add-login-pages.ts";
import type { AccountFeatures } from "../accounts/features.ts";
import { addAccounts } from "../accounts/routes.ts";
import { drainBody } from "../body/drain-body.ts";
import { bodyLimitBytes, readJsonBodies } from "../body/json-body.ts";
import { AddressLimits, defaultAddressLimits } from "../connections/address-limits.ts";
import { clientOf } from "../connections/client-address.ts";
import { createConnectionErrors } from "../connections/connection-errors.ts";
import {
  defaultServerTimes,
  hasSeveralHosts,
  limitConnections,
  type ServerTimes,
} from "../connections/connection-limits.ts";
import { type AllowedOrigins, createCors } from "../connections/cors.ts";
import type { PublicTls } from "../connections/public-tls.ts";
import { addSecureHeaders, apiHeaders } from "../connections/secure-headers.ts";
import { addConsoleRoutes } from "../console/console-routes.ts";
import type { Installation } from "../console/shell.ts";
import { createDashboardEdge, type DashboardBounds } from "../dashboards/dashboard-edge.ts";
import { createDashboardMetrics } from "../dashboards/dashboard-metrics.ts";
import type { DeploymentFeatures } from "../deployments/features.ts";
import { addDeployments } from "../deployments/routes.ts";
import { openApi } from "../docs/open-api.ts";
import type { Dialect, Refusal } from "../errors/error-body.ts";
import { errorSchemas } from "../errors/error-responses.ts";
import { methodNotAllowed } from "../errors/errors.ts";
import { maxParamLength, refusalOf, renderError } from "../errors/render-error.ts";
import { batchLines } from "../files/batch-lines.ts";
import type { FileFeatures } from "../files/features.ts";
import { addFileUpload } from "../files/files-routes.ts";
import { addFiles } from "../files/routes.ts";
import type { InferenceFeatures } from "../inference/features.ts";
import { InferenceEntry, type Validate } from "../inference/inference-entry.ts";
import { encodeModelName } from "../inference/model-path.ts";
import { nativeJobs } from "../inference/native/native-jobs.ts";
import { addInference } from "../inference/routes.ts";
import { socketRoutes } from "../inference/socket-routes.ts";
import { addMcpRoute } from "../mcp/mcp-route.ts";
import type { ModelFeatures } from "../models/features.ts";
import { addModels } from "../models/routes.ts";
import type { MoneyFeatures } from "../money/features.ts";
import { addMoney } from "../money/routes.ts";
import type { OperatorFeatures } from "../operator/features.ts";
import { addOperator } from "../operator/routes.ts";
import { createSocketEdge, type SocketLimits } from "../sockets/socket-edge.ts";
import { createEdgeMetrics } from "./edge-metrics.ts";
import { endpointsOf, pairs } from "./endpoint.ts";
import { KnownPaths } from "./known-paths.ts";
import { RequestState, type StateDeps } from "./request-state.ts";
import { addServiceRoutes, type ServiceFeatures } from "./service-routes.ts";

/** Dependencies of the edge itself; each subject adds the features that its routes use. */
interface EdgeDeps {
  readonly authenticator: Authenticator;
  readonly idempotency: Idempotency;
  /** Without the parts that the edge creates itself. */
  readonly spine: Omit<Spine, "health" | "metrics" | "refused" | "upstreams" | "deadlines" | "limits" | "unixMs"> &
    Partial<Pick<Spine, "limits">>;
  /** Limits for clients without a valid credential; undefined: the default ones. */
  readonly addresses?: AddressLimits;
  /** Maximum number of connections of all clients; default 20,000. */
  readonly maxConnections?: number;
  /** Undefined: the default ones. */
  readonly serverTimes?: Partial<ServerTimes>;
  /** Certificate for clients; undefined: plain HTTP. */
  readonly tls?: PublicTls | undefined;
  /** Connects to data paths of hosts. */
  readonly dial: Dial;
  /** Memory budget for the bodies of all requests together. */
  readonly bodies: ByteBudget;
  /** Detects stalled bodies; undefined: the edge's own deadlines. Its owner closes it. */
  readonly bodyWaits?: Deadlines;
  /** Undefined: dashboards have no address, and every host name is the API's. */
  readonly dashboards: Dashboards | undefined;
  /** Undefined: the default ones. */
  readonly dashboardBounds?: Partial<DashboardBounds>;
  /** Undefined: the default ones. */
  readonly socketLimits?: Partial<SocketLimits>;
  /** Addresses and networks of the proxies whose forwarded address, scheme and host count. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may read responses. */
  readonly corsOrigins: AllowedOrigins;
  readonly registry: Registry;
  /** With an asynchronous destination: one line per request. */
  readonly log: Logger;
}

export type HttpDeps = EdgeDeps &
  ServiceFeatures &
  Installation &
  AccountFeatures &
  MoneyFeatures &
  ModelFeatures &
  DeploymentFeatures &
  OperatorFeatures &
  FileFeatures &
  InferenceFeatures;

/** Returns the edge, ready to listen. `close()` stops listening, waits for running requests and closes the connections to agents. */
export async function createHttp(deps: HttpDeps): Promise<FastifyInstance> {
  const addresses = deps.addresses ?? new AddressLimits(defaultAddressLimits, () => false);
  const client = clientOf(deps.trustedProxies);
  const dashboards =
    deps.dashboards &&
    createDashboardEdge({
      dashboards: deps.dashboards,
      dial: deps.dial,
      addressOf: (request) => client(request).address,
      addresses,
      metrics: createDashboardMetrics(deps.registry),
      log: deps.log,
      onClosed: () => onClosed(),
      bounds: deps.dashboardBounds,
    });
  let sockets: ReturnType<typeof createSocketEdge> | undefined;
  const { log } = deps;
  const connections = createConnectionErrors({ log, registry: deps.registry, unixMs: Date.now });
  const serverTimes = { ...defaultServerTimes, ...deps.serverTimes };
  const app = Fastify({
    logger: false,
    bodyLimit: bodyLimitBytes,
    genReqId: () => randomId(24),
    requestIdHeader: false,
    trustProxy: deps.trustedProxies.length > 0 ? [...deps.trustedProxies] : false,
    keepAliveTimeout: serverTimes.keepAliveTimeout,
    requestTimeout: serverTimes.requestTimeout,
    rewriteUrl: ({ method, url = "/" }) => encodeModelName(method, url),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength },
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        discriminator: true,
        allowUnionTypes: true,
        // The failed value and its schema, for detail[]; never logged.
        verbose: true,
      },
      onCreate: compileAtFirstUse,
    },
    // Our own replies replace Node's: see the listeners at the end.
    [deps.tls ? "https" : "http"]: {
      ...serverTimes,
      ...deps.tls?.options(),
      requireHostHeader: false,
      // Other requests for an upgrade are handled as plain requests.
      shouldUpgradeCallback: (request: IncomingMessage) =>
        request.headers.upgrade?.toLowerCase() === "websocket" &&
        (dashboards?.owns(request) === true || sockets?.owns(request) === true),
    },
    clientErrorHandler: connections.unreadable,
    // For URLs that the router cannot read. No hook runs, and the request does not consider trusted proxies.
    frameworkErrors: (error, request, reply) => {
      const { address, isSecure } = client(request.raw);
      reply.headers(pairs(apiHeaders(isSecure)));
      const state = stateOfUnknown(edge, unknown, request, reply);
      state.refusal = limitOf(address) ?? refusalOf(error);
      answerRefusal(state.refusal, request, reply, state);
    },
  });
  deps.tls?.onChange((options) => (app.server as unknown as SecureServer).setSecureContext(options));
  const limits = limitConnections(
    app.server,
    { maxConnections: deps.maxConnections ?? 20_000, addresses },
    connections.dropped,
  );
  const isPreflight = createCors(deps.corsOrigins, client);
  const known = new KnownPaths();
  app.addHook("onRoute", ({ method, url, config }) => known.add(method, url, config?.dialect ?? "service"));
  app.decorateRequest("state", null);
  app.decorateRequest("readBody", null);
  // Replies are built by typed code; a serializer made from schemas would drop fields that they do not list.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  readJsonBodies(app);
  addSecureHeaders(app);

  const deadlines = new Deadlines();
  const upstreams = createUpstreams(deps.dial);
  const live = new LiveMetrics();
  let isClosing = false;
  // Node keeps a connection that was busy at shutdown open; close it when its response ends.
  const onClosed = () => {
    if (isClosing) setImmediate(() => app.server.closeIdleConnections());
  };
  const edge = {
    log,
    metrics: createEdgeMetrics(deps.registry),
    live,
    bodies: deps.bodies,
    addresses,
    waits: deps.bodyWaits ?? deadlines,
    unixMs: steadyTime.nowMs,
    onClosed,
  };
  const health = new TargetHealth({ log, registry: deps.registry });
  const spine: Spine = {
    limits: defaultLimits,
    ...deps.spine,
    upstreams,
    deadlines,
    metrics: createSpineMetrics(deps.registry),
    unixMs: steadyTime.nowMs,
    refused: new RefusedRequests(),
    health,
  };
  deps.webhooks.runWith(nativeJobs(spine));
  // A context compiles only for its own routes.
  let compiling: FastifyInstance = app;
  const compile = (schema: TSchema) => compiledBody(compiling, schema);
  const inference = new InferenceEntry({ ...edge, authenticator: deps.authenticator, clientOf: client, compile });
  app.addHook("preClose", async () => {
    isClosing = true;
    inference.isOpen = false;
    spine.coldStarts?.close();
    dashboards?.drain();
    sockets?.drain();
  });
  app.addHook("onClose", async () => {
    await dashboards?.close();
    sockets?.close();
    deadlines.close();
    await upstreams.close();
  });

  // Before the routes: a context inherits the handlers that its parent has when it is created.
  app.setErrorHandler((error, request, reply) => {
    const { state } = request;
    const refusal = refusalOf(error, request.routeOptions.bodyLimit);
    if (state) state.refusal = refusal;
    if (refusal.status === 413) drainBody(request.raw, () => answerRefusal(refusal, request, reply));
    else answerRefusal(refusal, request, reply);
  });
  const unknown = edge.metrics.meter("_any", "_unknown");
  /** Counts a request that matches no route; the refusal of a client that sent too many. */
  const limitOf = (address: string): Refusal | undefined => {
    try {
      addresses.take(address);
      return undefined;
    } catch (error) {
      return refusalOf(error);
    }
  };
  app.setNotFoundHandler((request, reply) => {
    const other = known.otherMethods(request.method, request.originalUrl);
    const state = stateOfUnknown(edge, unknown, request, reply, other?.dialect);
    state.refusal = limitOf(request.ip);
    if (!state.refusal) {
      if (!other) return reply.code(404).headers(pairs(state.headers())).send({ detail: "Not Found" });
      state.refusal = refusalOf(methodNotAllowed(request.method, other.allowed));
      reply.header("allow", other.allowed);
    }
    answerRefusal(state.refusal, request, reply, state);
    return reply;
  });

  // Without its hook: cookies are parsed only for requests of browsers (session.ts).
  await app.register(fastifyCookie, { hook: false });
  await app.register(swagger, openApi);
  for (const schema of errorSchemas) app.addSchema(schema);
  const endpointDeps = {
    ...edge,
    authenticator: deps.authenticator,
    sessions: deps.sessions,
    idempotency: deps.idempotency,
    inference,
  };
  await app.register(async (routes) => {
    compiling = routes;
    const endpoints = endpointsOf(routes, endpointDeps);
    addServiceRoutes(endpoints, routes, { ...deps, addresses }, live);
    addConsoleRoutes(endpoints, deps);
    addAccounts(endpoints, routes, deps);
    addMoney(endpoints, deps);
    addModels(endpoints, deps);
    addDeployments(endpoints, deps, health);
    addOperator(endpoints, deps);
    addFiles(endpoints, spine, deps);
    addInference(endpoints, spine, deps);
    addMcpRoute(endpoints, app, deps.version);
  });

  await app.register(async (uploads) => addFileUpload(endpointsOf(uploads, endpointDeps), uploads, deps));
  await app.register(async (pages) => addLoginPages(endpointsOf(pages, endpointDeps), pages, deps));

  await app.ready();
  deps.batches.runWith(batchLines(spineOfLines(spine), deps, compile));
  sockets = createSocketEdge(
    {
      ...edge,
      authenticator: deps.authenticator,
      clientOf: client,
      corsOrigins: deps.corsOrigins,
      registry: deps.registry,
      limits: deps.socketLimits,
      spine,
    },
    socketRoutes(spine, deps, compile),
  );
  const routes = app.server.listeners("request") as ((req: IncomingMessage, res: ServerResponse) => void)[];
  app.server.removeAllListeners("request");
  app.server.on("request", (req, res) => {
    if (!limits.mayWait(req, res)) connections.pipelined(req);
    else if (req.headers.host === undefined && req.httpVersion === "1.1") connections.hostless(req, res);
    else if (hasSeveralHosts(req)) connections.severalHosts(req, res);
    else if (dashboards?.owns(req)) dashboards.take(req, res);
    else if (!isPreflight(req, res) && !inference.take(req, res))
      for (const route of routes) route.call(app.server, req, res);
  });
  app.server.on("upgrade", (req, socket, first) => {
    if (hasSeveralHosts(req)) connections.unreadable(new Error("several Host headers"), socket);
    else if (dashboards?.owns(req)) dashboards.upgrade(req, socket, first);
    else sockets?.upgrade(req, socket, first);
  });
  app.server.on("checkExpectation", connections.unknownExpectation);
  return app;
}

/** Returns the validator that routes use for this body. */
function compiledBody(app: FastifyInstance, schema: TSchema): Validate {
  const { validatorCompiler } = app;
  if (!validatorCompiler) throw new Error("validators are compiled once the routes are ready");
  return validatorCompiler({ schema, method: "POST", url: "", httpPart: "body" });
}

function answerRefusal(
  refusal: Refusal,
  request: FastifyRequest,
  reply: FastifyReply,
  state: RequestState | null = request.state,
): void {
  const { status, headers, body } = renderError(refusal, state?.dialect ?? "service", request.id);
  // A client that exceeds the limit may continue sending without end.
  const end = refusal.code === "body_too_large" ? ["connection", "close"] : [];
  reply
    .code(status)
    .headers(pairs([...headers, ...end, ...(state?.headers() ?? [])]))
    .send(body);
}

function stateOfUnknown(
  edge: StateDeps,
  meter: ConstructorParameters<typeof RequestState>[1],
  request: FastifyRequest,
  reply: FastifyReply,
  dialect: Dialect = "service",
): RequestState {
  return new RequestState(edge, meter, dialect, request.id, request.headers, reply.raw);
}

// Compiling the validators of some 300 routes takes half of the processor time of a start. Each is compiled at its first request
// instead, in a millisecond or two.

interface Validator {
  (value: unknown): unknown;
  errors?: unknown;
}

/** The used part of Ajv. */
interface Compiler {
  compile(schema: object): Validator;
}

/**
 * For `ajv.onCreate` of Fastify. An invalid schema fails its first request instead of the start; the contract tests call every
 * route that has one.
 */
function compileAtFirstUse(ajv: Compiler): void {
  const compile = ajv.compile.bind(ajv);
  ajv.compile = (schema) => {
    let compiled: Validator | undefined;
    const validate: Validator = (value) => {
      compiled ??= compile(schema);
      const isValid = compiled(value);
      validate.errors = compiled.errors;
      return isValid;
    };
    return validate;
  };
}
