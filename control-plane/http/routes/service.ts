import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { Type } from "typebox";
import type { LiveMetrics } from "../../inference/live-metrics.ts";
import type { Endpoints } from "../endpoint.ts";
import { nullable } from "../schemas/sampling.ts";
import type { HttpDeps } from "../verbs.ts";

/** The oldest client that still speaks this interface. */
const oldestClient = "0.1.0";
const tag = "service";
const access = "public";

export function addServiceRoutes(
  endpoints: Endpoints,
  app: FastifyInstance,
  { readiness, version }: Pick<HttpDeps, "readiness" | "version">,
  live: LiveMetrics,
): void {
  endpoints.add({
    method: "GET",
    path: "/healthz",
    summary: "Answers while the process lives",
    tag,
    access,
    answer: Type.Object({ status: Type.String() }),
    handler: () => ({ status: "ok" }),
  });

  endpoints.add({
    method: "GET",
    path: "/readyz",
    summary: "200 when requests can be served, otherwise 503 and why not",
    tag,
    access,
    answer: Type.Object({ status: Type.String() }),
    refusals: [503],
    handler({ reply }) {
      const state = readiness();
      if (state.isReady) return { status: "ready" };
      reply.code(503).header("retry-after", "1");
      const error = `not ready: ${state.reasons.join("; ")}`;
      return { status: "not_ready", reasons: state.reasons, error, detail: { error } };
    },
  });

  endpoints.add({
    method: "GET",
    path: "/v1/metrics/live",
    summary: "Speed of the last minute, over everybody's requests",
    tag,
    access,
    answer: Type.Object({
      tokens_per_second: nullable.number(),
      time_to_first_token: nullable.number({ description: "Seconds" }),
      requests_per_second: nullable.number(),
      total_tflops: nullable.number(),
    }),
    handler() {
      const now = live.read();
      return {
        tokens_per_second: now.tokensPerSecond,
        time_to_first_token: now.timeToFirstToken,
        requests_per_second: now.requestsPerSecond,
        total_tflops: null,
      };
    },
  });

  endpoints.add({
    method: "GET",
    path: "/cli/version",
    summary: "Whether a client of this version may go on",
    tag,
    access,
    query: Type.Object({ version: Type.String({ description: "The client's own" }) }),
    answer: Type.Object({ min: Type.String(), update: Type.String(), latest: Type.String() }),
    handler: () => ({ min: oldestClient, update: oldestClient, latest: version }),
  });

  // No operation of the interface: for whoever opens the bare address that `up` prints.
  app.get("/", { schema: { hide: true } as object }, ({ headers }, reply) => {
    reply.header("cache-control", "no-store").header("vary", "accept");
    if (headers.accept?.includes("text/html")) return reply.redirect("/console", 302);
    return reply.send({ name: "Stoker", version, docs: "/docs", openapi: "/openapi.json", console: "/console" });
  });

  const page = readFileSync(join(import.meta.dirname, "../docs-page.html"), "utf8");
  app.get("/openapi.json", { schema: { hide: true } as object }, () => app.swagger());
  app.get("/docs", { schema: { hide: true } as object }, (_request, reply) =>
    reply
      .type("text/html; charset=utf-8")
      .header(
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
      )
      .send(page),
  );
}
