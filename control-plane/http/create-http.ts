// The public edge: parse, authenticate, call one verb, render. Its routes stand in routes/, statuses in render-error.ts.
import type { IncomingMessage, ServerResponse } from "node:http";
import { fastifyCookie } from "@fastify/cookie";
import swagger from "@fastify/swagger";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import type { TSchema } from "typebox";
import { randomId } from "../../proto/ids.ts";
import { defaultLimits } from "../inference/attempt.ts";
import type { Spine } from "../inference/complete.ts";
import { Deadlines } from "../inference/deadlines.ts";
import { LiveMetrics } from "../inference/live-metrics.ts";
import { createSpineMetrics } from "../inference/spine-metrics.ts";
import { createUpstreams } from "../inference/upstreams.ts";
import { batchLines } from "./batch-lines.ts";
import { clientAddress } from "./client-address.ts";
import { createConnectionErrors } from "./connection-errors.ts";
import { createDashboardEdge } from "./dashboards/dashboard-edge.ts";
import { createDashboardMetrics } from "./dashboards/dashboard-metrics.ts";
import { drainBody } from "./drain-body.ts";
import { createEdgeMetrics } from "./edge-metrics.ts";
import { endpointsOf, pairs } from "./endpoint.ts";
import type { Dialect } from "./error-body.ts";
import { MethodNotAllowed } from "./errors.ts";
import { bodyLimitBytes, readJsonBodies } from "./json-body.ts";
import { KnownPaths } from "./known-paths.ts";
import { compileAtFirstUse } from "./lazy-validators.ts";
import { encodeModelName } from "./model-path.ts";
import { nativeJobs } from "./native/native-jobs.ts";
import { openApi } from "./open-api.ts";
import { addLoginPages } from "./pages/add-login-pages.ts";
import { plainLines } from "./plain-lines.ts";
import type { Refusal } from "./refusal.ts";
import { RelayFront } from "./relay-front.ts";
import { createRelays } from "./relay-route.ts";
import { mostParamLength, refusalOf, renderError } from "./render-error.ts";
import { RequestState, type StateDeps } from "./request-state.ts";
import { addAdapterRoutes } from "./routes/adapters.ts";
import { addAdminRoutes } from "./routes/admin.ts";
import { addAdminAccountRoutes } from "./routes/admin-accounts.ts";
import { addAdminAuditRoutes } from "./routes/admin-audit.ts";
import { addAdminBillingRoutes } from "./routes/admin-billing.ts";
import { addAdminMoneyRoutes } from "./routes/admin-money.ts";
import { addAdminNodeWeightsRoutes } from "./routes/admin-node-weights.ts";
import { addAdminNodeRoutes } from "./routes/admin-nodes.ts";
import { addAdminPriceRoutes } from "./routes/admin-prices.ts";
import { addAdminQuotaRoutes } from "./routes/admin-quotas.ts";
import { addAgentInstanceRoutes } from "./routes/agent-instances.ts";
import { addAudioRoutes } from "./routes/audio.ts";
import { addBatchRoutes } from "./routes/batches.ts";
import { addCliLoginRoutes } from "./routes/cli-login.ts";
import { addCompletionRoutes } from "./routes/completions.ts";
import { addConsoleRoutes } from "./routes/console.ts";
import { addContainerRoutes } from "./routes/containers.ts";
import { addDeployRoutes } from "./routes/deploy.ts";
import { addDeployHubRoutes } from "./routes/deploy-hub.ts";
import { addDeployStatsRoutes } from "./routes/deploy-stats.ts";
import { addEmbeddingRoutes } from "./routes/embeddings.ts";
import { addFileRoutes, addFileUpload } from "./routes/files.ts";
import { addImageRoutes } from "./routes/images.ts";
import { addInvoiceRoutes } from "./routes/invoices.ts";
import { addLogRoutes } from "./routes/logs.ts";
import { addMeRoutes } from "./routes/me.ts";
import { addModelRecordRoutes } from "./routes/model-records.ts";
import { addModelRoutes } from "./routes/models.ts";
import { addNativeRoutes } from "./routes/native.ts";
import { addNodeEnrolmentRoutes } from "./routes/node-enrolment.ts";
import { addNodeOperationRoutes } from "./routes/node-operations.ts";
import { addPayingRoutes } from "./routes/paying.ts";
import { addPaymentRoutes } from "./routes/payment.ts";
import { addPlacementRoutes } from "./routes/placement.ts";
import { addProgramRoutes } from "./routes/program.ts";
import { addQuotaRoutes } from "./routes/quotas.ts";
import { addScopedJwtRoutes } from "./routes/scoped-jwt.ts";
import { addServiceRoutes } from "./routes/service.ts";
import { addSignInRoutes } from "./routes/sign-in.ts";
import { addSshKeyRoutes } from "./routes/ssh-keys.ts";
import { addTextToSpeechRoutes } from "./routes/text-to-speech.ts";
import { addTokenRoutes } from "./routes/tokens.ts";
import { addUsageLogRoutes } from "./routes/usage-log.ts";
import { addVoiceRoutes } from "./routes/voices.ts";
import { addWebhookRoutes } from "./routes/webhooks.ts";
import { errorSchemas } from "./schemas/error-responses.ts";
import { ownVoice } from "./tasks/own-voice.ts";
import type { HttpDeps } from "./verbs.ts";

/** Ready to listen. `close()` stops listening, waits for what runs and closes the connections to agents. */
export async function createHttp(deps: HttpDeps): Promise<FastifyInstance> {
  const dashboards =
    deps.dashboards &&
    createDashboardEdge({
      dashboards: deps.dashboards,
      dial: deps.dial,
      addressOf: clientAddress(deps.trustedProxies),
      metrics: createDashboardMetrics(deps.registry),
      log: deps.log,
      onClosed: () => onClosed(),
      bounds: deps.dashboardBounds,
    });
  const log = plainLines(deps.log);
  const connections = createConnectionErrors({ log, registry: deps.registry, unixMs: Date.now });
  const app = Fastify({
    logger: false,
    bodyLimit: bodyLimitBytes,
    genReqId: () => randomId(24),
    requestIdHeader: false,
    trustProxy: deps.trustedProxies.length > 0 ? [...deps.trustedProxies] : false,
    // Behind proxies that keep connections for a minute: the side that sends must be the one that closes.
    keepAliveTimeout: 75_000,
    // To receive a whole request, a file of 200 MB over a slow line included; answers take as long as they take.
    requestTimeout: 900_000,
    rewriteUrl: ({ method, url = "/" }) => encodeModelName(method, url),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: mostParamLength },
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
    // Told in our own words: see the listeners at the end.
    http: {
      requireHostHeader: false,
      // Whatever else asks for an upgrade is answered as if it had not.
      shouldUpgradeCallback: (request) =>
        request.headers.upgrade?.toLowerCase() === "websocket" && dashboards?.owns(request) === true,
    },
    clientErrorHandler: connections.unreadable,
    frameworkErrors: (error, request, reply) => {
      const state = stateOfUnknown(edge, unknown, request, reply);
      state.refusal = refusalOf(error);
      answerRefusal(state.refusal, request, reply, state);
    },
  });
  const known = new KnownPaths();
  app.addHook("onRoute", ({ method, url, config }) => known.add(method, url, config?.dialect ?? "service"));
  app.decorateRequest("state", null);
  app.decorateRequest("readBody", null);
  // What is sent was built by typed code; a serialiser made of schemas would drop what they do not list.
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  readJsonBodies(app);

  const deadlines = new Deadlines();
  const upstreams = createUpstreams(deps.dial);
  const live = new LiveMetrics();
  let isClosing = false;
  // A connection that was busy when closing began stays open when its answer has ended, unless it is told.
  const onClosed = () => {
    if (isClosing) setImmediate(() => app.server.closeIdleConnections());
  };
  const edge = {
    log,
    metrics: createEdgeMetrics(deps.registry),
    live,
    bodies: deps.bodies,
    waits: deps.bodyWaits ?? deadlines,
    unixMs: Date.now,
    onClosed,
  };
  const spine: Spine = {
    limits: defaultLimits,
    ...deps.spine,
    upstreams,
    deadlines,
    metrics: createSpineMetrics(deps.registry),
    unixMs: Date.now,
  };
  deps.webhooks.runWith(nativeJobs(spine));
  const front = new RelayFront({ ...edge, authenticator: deps.authenticator });
  // Which address a request came from is then Fastify's to say.
  if (deps.trustedProxies.length > 0) front.isOpen = false;
  app.addHook("preClose", async () => {
    isClosing = true;
    front.isOpen = false;
    spine.coldStarts?.close();
    dashboards?.drain();
  });
  app.addHook("onClose", async () => {
    await dashboards?.close();
    deadlines.close();
    await upstreams.close();
  });

  // Before the routes: a context takes the handlers its parent has when it is made.
  app.setErrorHandler((error, request, reply) => {
    const { state } = request;
    const refusal = refusalOf(error, request.routeOptions.bodyLimit);
    if (state) state.refusal = refusal;
    if (refusal.status === 413) drainBody(request.raw, () => answerRefusal(refusal, request, reply));
    else answerRefusal(refusal, request, reply);
  });
  const unknown = edge.metrics.meter("_any", "_unknown");
  app.setNotFoundHandler((request, reply) => {
    const other = known.otherMethods(request.method, request.originalUrl);
    const state = stateOfUnknown(edge, unknown, request, reply, other?.dialect);
    if (!other) return reply.code(404).headers(pairs(state.headers())).send({ detail: "Not Found" });
    state.refusal = refusalOf(new MethodNotAllowed(request.method, other.allowed));
    reply.header("allow", other.allowed);
    answerRefusal(state.refusal, request, reply, state);
    return reply;
  });

  // Without its hook: only requests of browsers are searched for cookies (session.ts).
  await app.register(fastifyCookie, { hook: false });
  await app.register(swagger, openApi);
  for (const schema of errorSchemas) app.addSchema(schema);
  const endpointDeps = {
    ...edge,
    authenticator: deps.authenticator,
    sessions: deps.sessions,
    idempotency: deps.idempotency,
  };
  // A context compiles for its own routes alone.
  let compiling: FastifyInstance = app;
  await app.register(async (routes) => {
    compiling = routes;
    const endpoints = endpointsOf(routes, endpointDeps);
    addServiceRoutes(endpoints, routes, deps, live);
    addConsoleRoutes(endpoints, deps);
    addMeRoutes(endpoints, deps);
    addSshKeyRoutes(endpoints, deps);
    addTokenRoutes(endpoints, deps);
    addPaymentRoutes(endpoints, deps);
    addUsageLogRoutes(endpoints, deps);
    addInvoiceRoutes(endpoints, deps);
    addSignInRoutes(endpoints, deps);
    addScopedJwtRoutes(endpoints, deps);
    addPayingRoutes(endpoints, deps);
    addAdminBillingRoutes(endpoints, deps);
    addAdminMoneyRoutes(endpoints, deps);
    addCliLoginRoutes(endpoints, routes, deps);
    addModelRoutes(endpoints, deps.spine.models);
    addModelRecordRoutes(endpoints, deps);
    addAdapterRoutes(endpoints, deps);
    addDeployRoutes(endpoints, deps);
    addPlacementRoutes(endpoints, deps);
    addDeployHubRoutes(endpoints, deps);
    addDeployStatsRoutes(endpoints, deps);
    addContainerRoutes(endpoints, deps);
    addAgentInstanceRoutes(endpoints, deps);
    addQuotaRoutes(endpoints, deps);
    addAdminQuotaRoutes(endpoints, deps);
    addLogRoutes(endpoints, deps);
    addAdminRoutes(endpoints, deps);
    addNodeEnrolmentRoutes(endpoints, deps);
    addAdminAccountRoutes(endpoints, deps);
    addAdminAuditRoutes(endpoints, deps);
    addNodeOperationRoutes(endpoints, deps);
    addAdminNodeRoutes(endpoints, deps);
    addAdminNodeWeightsRoutes(endpoints, deps);
    addAdminPriceRoutes(endpoints, deps);
    addProgramRoutes(endpoints, deps);
    addFileRoutes(endpoints, deps);
    addBatchRoutes(endpoints, deps);
    const relays = createRelays(spine, front, deps);
    addCompletionRoutes(endpoints, relays);
    addEmbeddingRoutes(endpoints, relays);
    const voices = ownVoice(spine, deps.voices);
    addAudioRoutes(endpoints, relays, voices);
    addImageRoutes(endpoints, relays);
    addTextToSpeechRoutes(endpoints, spine, relays, voices, deps.speechModel);
    addVoiceRoutes(endpoints, spine, deps);
    addNativeRoutes(endpoints, spine, relays, voices, deps);
    addWebhookRoutes(endpoints, deps);
  });

  await app.register(async (uploads) => addFileUpload(endpointsOf(uploads, endpointDeps), uploads, deps));
  await app.register(async (pages) => addLoginPages(endpointsOf(pages, endpointDeps), pages, deps));

  await app.ready();
  const compile = (schema: TSchema) => compiledBody(compiling, schema);
  deps.batches.runWith(batchLines(deps.spineOfLines(spine), compile));
  const routes = app.server.listeners("request") as ((req: IncomingMessage, res: ServerResponse) => void)[];
  app.server.removeAllListeners("request");
  app.server.on("request", (req, res) => {
    if (req.headers.host === undefined && req.httpVersion === "1.1") connections.hostless(req, res);
    else if (dashboards?.owns(req)) dashboards.take(req, res);
    else if (!front.take(req, res)) for (const route of routes) route.call(app.server, req, res);
  });
  if (dashboards) app.server.on("upgrade", dashboards.upgrade);
  app.server.on("checkExpectation", connections.unknownExpectation);
  return app;
}

/** As bodies of routes are validated. */
function compiledBody(app: FastifyInstance, schema: TSchema) {
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
  // Whoever sends more than is taken may go on sending for ever.
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
