import Fastify, { type FastifyInstance } from "fastify";
import type { Registry } from "prom-client";

/** The operator's own port: /metrics, never on the public address. Serves what is in memory and asks nobody. */
export function createAdminHttp(registry: Registry): FastifyInstance {
  const app = Fastify({ logger: false });
  app.get("/metrics", async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
  app.get("/healthz", () => ({ status: "ok" }));
  return app;
}
