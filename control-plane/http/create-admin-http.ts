import Fastify, { type FastifyInstance } from "fastify";
import { Histogram, type Registry } from "prom-client";

/** One group of Prometheus's http_sd. */
export interface ScrapeTargets {
  readonly targets: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

/** The operator's own port: /metrics, never on the public address. Serves what is in memory and asks nobody. */
export function createAdminHttp(registry: Registry, agents: () => readonly ScrapeTargets[]): FastifyInstance {
  const app = Fastify({ logger: false });
  const seconds = new Histogram({
    name: "stoker_metrics_page_seconds",
    help: "Time this process took to make and send a page, the network left out",
    labelNames: ["page"],
    buckets: [0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 2],
    registers: [registry],
  });
  app.addHook("onResponse", async (request, reply) => {
    const { url } = request.routeOptions;
    if (url !== undefined) seconds.observe({ page: url }, reply.elapsedTime / 1000);
  });
  app.get("/metrics", async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()));
  app.get("/metrics/targets", () => agents());
  app.get("/healthz", () => ({ status: "ok" }));
  return app;
}
