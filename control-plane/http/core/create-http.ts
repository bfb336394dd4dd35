// The public edge: parse, authenticate, call one feature, render. Each subject folder holds its routes, schemas and renderers.

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Server as SecureServer } from "node:https";
import { fastifyCookie } from "@fastify/cookie";
import swagger from "@fastify/swagger";
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from "fastify";
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
import type { Rejections } from "../../billing/rejections.ts";
import type { Dial } from "../../fleet/dial.ts";
import { defaultLimits } from "../../inference/attempt.ts";
import type { ByteBudget } from "../../inference/byte-budget.ts";
import type { Spine } from "../../inference/complete.ts";
import { LiveMetrics } from "../../inference/live-metrics.ts";
import { RefusedRequests } from "../../inference/refused-requests.ts";
import { createSpineMetrics } from "../../inference/spine-metrics.ts";
import { TargetHealth } from "../../inference/target-health.ts";
import { createUpstreams } from "../../inference/upstreams.ts";
import type { LiveFeed } from "../../series/live-feed.ts";
import type { RequestTally } from "../../series/request-tally.ts";
import { addLoginPages } from "../accounts/add-login-pages.ts";
import type { AccountFeatures } from "../accounts/features.ts";
import { addAccounts } from "../accounts/routes.ts";
import { drainBody } from "../body/drain-body.ts";
import { bodyLimitBytes, readJsonBodies } from "../body/json-body.ts";
import { AddressLimits, defaultAddressLimits } from "../connections/address-limits.ts";
import { clientOf } from "../connections/client-address.ts";
import { type ConnectionErrors, createConnectionErrors } from "../connections/connection-errors.ts";
import {
  type ConnectionLimits,
  defaultServerTimes,
  hasSeveralHosts,
  limitConnections,
  type ServerTimes,
} from "../connections/connection-limits.ts";
import { type AllowedOrigins, createCors } from "../connections/cors.ts";
import type { PublicTls } from "../connections/public-tls.ts";
import { addSecureHeaders } from "../connections/secure-headers.ts";
import { addConsoleRoutes } from "../console/routes.ts";
import type { Installation } from "../console/shell.ts";
import { type DashboardBounds, DashboardEdge } from "../dashboards/dashboard-edge.ts";
import { createDashboardMetrics } from "../dashboards/dashboard-metrics.ts";
import type { DeploymentFeatures } from "../deployments/features.ts";
import { addDeployments } from "../deployments/routes.ts";
import { openApi } from "../docs/open-api.ts";
import { addDocsRoutes } from "../docs/site-routes.ts";
import { errorSchemas } from "../errors/error-responses.ts";
import { maxParamLength, type PartFaults, refusalOf } from "../errors/render-error.ts";
import type { SchemaError } from "../errors/validation-detail.ts";
import { batchLines } from "../files/batch-lines.ts";
import type { FileFeatures } from "../files/features.ts";
import { addFileUpload } from "../files/files-routes.ts";
import { addFiles } from "../files/routes.ts";
import type { IdentityFeatures } from "../identity/features.ts";
import { addIdentityRoutes, addProviderRoutes, addScimTokenRoutes } from "../identity/provider-routes.ts";
import { addScimRoutes } from "../identity/scim-routes.ts";
import { addWorkloadRoutes } from "../identity/workload-routes.ts";
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
import type { SocketLimits } from "../sockets/open-sessions.ts";
import { SocketEdge } from "../sockets/socket-edge.ts";
import { type TerminalBounds, TerminalEdge } from "../terminals/terminal-edge.ts";
import { createEdgeMetrics } from "./edge-metrics.ts";
import { endpointsOf } from "./endpoint.ts";
import { KnownPaths } from "./known-paths.ts";
import { compileAtFirstUse } from "./lazy-validators.ts";
import { type LiveStreamLimits, LiveStreams } from "./live-streams.ts";
import { addServiceRoutes, type ServiceFeatures } from "./service-routes.ts";
import { sendRefusal, UnmatchedRequests } from "./unmatched-requests.ts";

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
  readonly terminalBounds?: Partial<TerminalBounds>;
  /** Undefined: the default ones. */
  readonly socketLimits?: Partial<SocketLimits>;
  /** Addresses and networks of the proxies whose forwarded address, scheme and host count. */
  readonly trustedProxies: readonly string[];
  /** Origins whose pages may read responses. */
  readonly corsOrigins: AllowedOrigins;
  readonly registry: Registry;
  readonly tally: Pick<RequestTally, "note">;
  readonly rejections: Pick<Rejections, "note">;
  readonly feed: LiveFeed;
  /** Undefined: the default ones. */
  readonly liveLimits?: Partial<LiveStreamLimits>;
  /** With an asynchronous destination: one line per request. */
  readonly log: Logger;
}

export type HttpDeps = EdgeDeps &
  ServiceFeatures &
  Installation &
  AccountFeatures &
  IdentityFeatures &
  MoneyFeatures &
  ModelFeatures &
  DeploymentFeatures &
  OperatorFeatures &
  FileFeatures &
  InferenceFeatures;

/** Returns the edge, ready to listen. `close()` stops listening, waits for running requests and closes the connections to agents. */
export async function createHttp(deps: HttpDeps): Promise<FastifyInstance> {
  const { log } = deps;
  const client = clientOf(deps.trustedProxies);
  const deadlines = new Deadlines();
  const upstreams = createUpstreams(deps.dial);
  const live = new LiveMetrics();
  let isClosing = false;
  const edge = {
    log,
    metrics: createEdgeMetrics(deps.registry),
    live,
    tally: deps.tally,
    rejections: deps.rejections,
    bodies: deps.bodies,
    addresses: deps.addresses ?? new AddressLimits(defaultAddressLimits, () => false),
    waits: deps.bodyWaits ?? deadlines,
    tracing: deps.spine.tracing,
    unixMs: steadyTime.nowMs,
    // Node keeps a connection that was busy at shutdown open; close it when its response ends.
    onClosed: () => {
      if (isClosing) setImmediate(() => app.server.closeIdleConnections());
    },
  };
  const dashboards =
    deps.dashboards &&
    new DashboardEdge({
      dashboards: deps.dashboards,
      dial: deps.dial,
      addressOf: (request) => client(request).address,
      addresses: edge.addresses,
      metrics: createDashboardMetrics(deps.registry),
      log,
      onClosed: edge.onClosed,
      bounds: deps.dashboardBounds,
    });
  const { terminals: terminalsOf, dial, registry, terminalBounds } = deps;
  const terminals = new TerminalEdge({
    ...edge,
    terminals: terminalsOf,
    dial,
    clientOf: client,
    registry,
    bounds: terminalBounds,
  });
  let sockets: SocketEdge | undefined;
  const connections = createConnectionErrors({ log, registry: deps.registry, unixMs: Date.now });
  const known = new KnownPaths();
  const unmatched = new UnmatchedRequests(edge, known);
  const app = Fastify({
    ...serverOptions(deps, (request) => [dashboards, terminals, sockets].some((one) => one?.owns(request) === true)),
    clientErrorHandler: connections.unreadable,
    frameworkErrors: (error, request, reply) => unmatched.refuseUrl(error, request, reply, client(request.raw)),
  });
  deps.tls?.onChange((options) => (app.server as unknown as SecureServer).setSecureContext(options));
  app.addHook("onRoute", ({ method, url, config }) => known.add(method, url, config?.dialect ?? "service"));
  app.decorateRequest("state", null);
  app.decorateRequest("readBody", null);
  // Replies are built by typed code; a serializer made from schemas would drop fields that they do not list.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  readJsonBodies(app);
  addSecureHeaders(app);

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
  deps.webhooks.runWith(nativeJobs(spine, deps.tally));
  const { feed, liveLimits, sessions } = deps;
  const streams = new LiveStreams({ feed, sessions, members: deps.members, standing: deps.spine.standing }, liveLimits);
  // A context compiles only for its own routes.
  let compiling: FastifyInstance = app;
  const compile = (schema: TSchema) => compiledBody(compiling, schema);
  const { authenticator } = deps;
  const inference = new InferenceEntry({ ...edge, authenticator, clientOf: client, compile });
  app.addHook("preClose", async () => {
    isClosing = true;
    inference.isOpen = false;
    spine.coldStarts?.close();
    dashboards?.drain();
    terminals.drain();
    sockets?.drain();
    streams.close();
  });
  app.addHook("onClose", async () => {
    await dashboards?.close();
    terminals.close();
    sockets?.close();
    deadlines.close();
    await upstreams.close();
  });

  // Before the routes: a context inherits the handlers that its parent has when it is created.
  app.setErrorHandler(refuseFailed);
  app.setNotFoundHandler((request, reply) => unmatched.refusePath(request, reply));

  // Without its hook: cookies are parsed only for requests of browsers (session.ts).
  await app.register(fastifyCookie, { hook: false });
  await app.register(swagger, openApi);
  for (const schema of errorSchemas) app.addSchema(schema);
  const { idempotency, members } = deps;
  const { actAs } = deps.operator;
  const endpointDeps = { ...edge, authenticator, sessions, idempotency, inference, actAs, members };
  await app.register(async (routes) => {
    compiling = routes;
    const endpoints = endpointsOf(routes, endpointDeps);
    addServiceRoutes(endpoints, routes, { ...deps, addresses: edge.addresses }, live, streams);
    addConsoleRoutes(endpoints, deps);
    addDocsRoutes(endpoints);
    addAccounts(endpoints, routes, deps);
    addProviderRoutes(endpoints, deps);
    addIdentityRoutes(endpoints, deps);
    addWorkloadRoutes(endpoints, deps);
    addScimTokenRoutes(endpoints, deps);
    addScimRoutes(endpoints, deps);
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
  const { corsOrigins, socketLimits } = deps;
  sockets = new SocketEdge(
    { ...edge, authenticator, clientOf: client, corsOrigins, registry, limits: socketLimits, spine },
    socketRoutes(spine, deps, compile),
  );
  const maxConnections = deps.maxConnections ?? 20_000;
  const limits = limitConnections(app.server, { maxConnections, addresses: edge.addresses }, connections.dropped);
  const isPreflight = createCors(corsOrigins, client);
  takeRequests(app.server, { limits, connections, dashboards, terminals, sockets, inference, isPreflight });
  return app;
}

function serverOptions(deps: HttpDeps, mayUpgrade: (request: IncomingMessage) => boolean) {
  const serverTimes = { ...defaultServerTimes, ...deps.serverTimes };
  return {
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
        // TypeBox makes valid schemas. To check them, Ajv compiles the schema of JSON Schema at every start.
        validateSchema: false,
        // V8 optimises the code itself. This half of a compilation made validators no faster.
        code: { optimize: false },
      },
      onCreate: compileAtFirstUse,
    },
    // Our own replies replace Node's: see takeRequests.
    [deps.tls ? "https" : "http"]: {
      ...serverTimes,
      ...deps.tls?.options(),
      requireHostHeader: false,
      // Other requests for an upgrade are handled as plain requests.
      shouldUpgradeCallback: (request: IncomingMessage) =>
        request.headers.upgrade?.toLowerCase() === "websocket" && mayUpgrade(request),
    },
  } satisfies FastifyServerOptions;
}

/** Returns the faults of the parts that Fastify did not validate, because it stops at the first invalid part. */
function otherFaults(request: FastifyRequest, invalid: string): readonly PartFaults[] {
  const parts = { params: request.params, body: request.body, querystring: request.query };
  return Object.entries(parts).flatMap(([context, value]) => {
    if (context === invalid) return [];
    const validate = request.getValidationFunction(context as keyof typeof parts) as Validate | undefined;
    return validate?.(value) === false ? [{ context, errors: validate.errors as readonly SchemaError[] }] : [];
  });
}

/** Error handler of all routes. */
function refuseFailed(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const { state } = request;
  const refusal = refusalOf(error, request.routeOptions.bodyLimit, (invalid) => otherFaults(request, invalid));
  if (state) state.refusal = refusal;
  if (refusal.status === 413) drainBody(request.raw, () => sendRefusal(refusal, request, reply));
  else sendRefusal(refusal, request, reply);
}

/** Passes each request of the server to the part that handles it; Fastify's own listeners receive the others. */
function takeRequests(
  server: Server,
  parts: {
    readonly limits: ConnectionLimits;
    readonly connections: ConnectionErrors;
    readonly dashboards: DashboardEdge | undefined;
    readonly terminals: TerminalEdge;
    readonly sockets: SocketEdge;
    readonly inference: InferenceEntry;
    readonly isPreflight: ReturnType<typeof createCors>;
  },
): void {
  const { limits, connections, dashboards, terminals, sockets, inference, isPreflight } = parts;
  const routes = server.listeners("request") as ((req: IncomingMessage, res: ServerResponse) => void)[];
  server.removeAllListeners("request");
  server.on("request", (req, res) => {
    if (!limits.mayWait(req, res)) connections.pipelined(req);
    else if (req.headers.host === undefined && req.httpVersion === "1.1") connections.hostless(req, res);
    else if (hasSeveralHosts(req)) connections.severalHosts(req, res);
    else if (dashboards?.owns(req)) dashboards.take(req, res);
    else if (isPreflight(req, res) || inference.take(req, res)) return;
    else if (!terminals.refusePlain(req, res) && !sockets.refusePlain(req, res))
      for (const route of routes) route.call(server, req, res);
  });
  server.on("upgrade", (req, socket, first) => {
    if (hasSeveralHosts(req)) connections.unreadable(new Error("several Host headers"), socket);
    else if (dashboards?.owns(req)) dashboards.upgrade(req, socket, first);
    else if (terminals.owns(req)) terminals.upgrade(req, socket, first);
    else sockets.upgrade(req, socket, first);
  });
  server.on("checkExpectation", connections.unknownExpectation);
}

/** Returns the validator that routes use for this body. */
function compiledBody(app: FastifyInstance, schema: TSchema): Validate {
  const { validatorCompiler } = app;
  if (!validatorCompiler) throw new Error("validators are compiled once the routes are ready");
  return validatorCompiler({ schema, method: "POST", url: "", httpPart: "body" });
}
