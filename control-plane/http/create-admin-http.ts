import Fastify, { type FastifyInstance } from "fastify";
import type { Registry } from "prom-client";

/** One group of Prometheus's http_sd. */
export interface ScrapeTargets {
  readonly targets: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

/** The operator's own port: /metrics, never on the public address. Serves what is in memory and asks nobody. */
export function createAdminHttp(registry: Registry, agents: () => readonly ScrapeTargets[]): FastifyInstance {
  const app = Fastify({ logger: false });
  app.get("/metrics", async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
  app.get("/metrics/targets", () => agents());
  app.get("/healthz", () => ({ status: "ok" }));
  return app;
}
