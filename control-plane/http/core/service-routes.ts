import type { FastifyInstance, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { LiveMetrics } from "../../inference/live-metrics.ts";
import type { AddressLimits } from "../connections/address-limits.ts";
import { pagePolicy } from "../connections/secure-headers.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { Endpoints } from "./endpoint.ts";
import type { LiveStreams } from "./live-streams.ts";
import type { Readiness } from "./readiness.ts";
import type { RequestState } from "./request-state.ts";

/** Oldest client that supports this interface. */
const oldestClient = "0.1.0";

export interface ServiceFeatures {
  /** From memory: never queries the database. */
  readonly readiness: () => Readiness;
  /** Version of the product, for `GET /cli/version`. */
  readonly version: string;
}

const figure = (description: string) => Type.Optional(nullable.number({ description }));

const Live = Type.Object({
  tokens_per_second: nullable.number(),
  time_to_first_token: nullable.number({ description: "Seconds; median with a credential" }),
  requests_per_second: nullable.number(),
  total_tflops: nullable.number(),
  at: Type.Optional(Type.Number({ description: "Unix seconds. This and the following: with a credential" })),
  errors_per_second: figure("Refused and failed requests"),
  gpus: figure("This and the following: of the installation"),
  gpus_held: figure("GPUs of instances"),
  gpu_use_ratio: figure("Mean"),
  gpu_memory_used_bytes: figure("Sum"),
  gpu_memory_total_bytes: figure("Sum"),
  gpu_power_watts: figure("Sum"),
  running_requests: figure("At instances"),
  waiting_requests: figure("In queues of instances"),
});

const isSet = (value: unknown) => value === "1" || value === "true" || value === true;
const wantsStream = ({ headers, query }: FastifyRequest): boolean =>
  isSet((query as { stream?: unknown }).stream) || headers.accept?.includes("text/event-stream") === true;
const wantsOwn = (request: FastifyRequest): boolean =>
  wantsStream(request) || (request.query as { scope?: unknown }).scope !== undefined;

export function addServiceRoutes(
  endpoints: Endpoints,
  app: FastifyInstance,
  { readiness, version, addresses }: ServiceFeatures & { readonly addresses: AddressLimits },
  live: LiveMetrics,
  streams: LiveStreams,
): void {
  const open = endpoints.with({ tag: "service", access: "public" });

  open.get("/healthz", {
    summary: "Returns 200 while the process runs",
    isFromMemory: true,
    answer: Type.Object({ status: Type.String() }),
    handler: () => ({ status: "ok" }),
  });

  open.get("/readyz", {
    summary: "Returns 200 when requests can be served, otherwise 503 with the reasons",
    answer: Type.Object({ status: Type.String() }),
    handler({ reply }) {
      const state = readiness();
      if (state.isReady) return { status: "ready" };
      reply.code(503).header("retry-after", "1");
      const error = `not ready: ${state.reasons.join("; ")}`;
      return { status: "not_ready", reasons: state.reasons, error, detail: { error } };
    },
  });

  open.get("/v1/metrics/live", {
    summary:
      "Get the speed of all requests of the last minute. With `scope` or `stream`, and a credential: that of the account, or of the installation with its GPUs",
    isFromMemory: true,
    isOpenToOperators: true,
    isPrivate: wantsOwn,
    query: Type.Object({
      stream: Type.Optional(
        Type.Boolean({
          description:
            "Server-sent events, one every 2 s; also with `Accept: text/event-stream`. At most 8 per account",
        }),
      ),
      scope: Type.Optional(
        Type.Unsafe<"account" | "fleet">({
          type: "string",
          enum: ["account", "fleet"],
          description:
            "fleet: the whole installation, for operators, and their default. Otherwise the caller's account",
        }),
      ),
    }),
    answer: Live,
    refusals: [401, 403, 429, 503],
    async handler({ query, reply }) {
      const { request } = reply;
      if (wantsStream(request)) {
        reply.header("content-type", "text/event-stream; charset=utf-8").header("x-accel-buffering", "no");
        return streams.open(request, query.scope);
      }
      if (wantsOwn(request)) return streams.read(request.state as RequestState, query.scope);
      const now = live.read();
      return {
        tokens_per_second: now.tokensPerSecond,
        time_to_first_token: now.timeToFirstToken,
        requests_per_second: now.requestsPerSecond,
        total_tflops: null,
      };
    },
  });

  open.get("/cli/version", {
    summary: "Get the oldest supported and the latest version of the command line",
    isFromMemory: true,
    query: Type.Object({ version: Type.String({ maxLength: 128, description: "Version of the client" }) }),
    answer: Type.Object({ min: Type.String(), update: Type.String(), latest: Type.String() }),
    handler: () => ({ min: oldestClient, update: oldestClient, latest: version }),
  });

  const hidden = {
    schema: { hide: true } as object,
    onRequest: async (request: FastifyRequest) => addresses.take(request.ip),
  };
  const page = (path: string, type: string, text: () => string) =>
    app.get(path, hidden, (_request, reply) =>
      reply.type(type).header("content-security-policy", pagePolicy).serializer(String).send(text()),
    );

  // Not an operation of the interface: for people who open the address that `up` prints.
  app.get("/", hidden, ({ headers }, reply) => {
    reply.header("cache-control", "no-store").header("vary", "accept");
    if (headers.accept?.includes("text/html")) return reply.redirect("/console", 302);
    return reply.send({ name: "Stoker", version, docs: "/docs", openapi: "/openapi.json", console: "/console" });
  });

  // Rendered once, because it takes a while and is the same for all clients.
  let description: string | undefined;
  page("/openapi.json", "application/json; charset=utf-8", () => (description ??= JSON.stringify(app.swagger())));
}
