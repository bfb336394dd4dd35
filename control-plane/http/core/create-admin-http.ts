import Fastify, { type FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { Histogram, type Registry } from "prom-client";
import { isLoopbackHost } from "../../../proto/address-rules.ts";
import { type BearerSecret, readBearerSecret } from "../../../proto/bearer-secret.ts";
import type { ScrapeTargets } from "../../deployments/fleet-metrics.ts";

/**
 * The operator's port, separate from the public address. Pages are rendered from memory. `token`: required by every page except
 * /healthz; undefined: none.
 */
export function createAdminHttp(
  registry: Registry,
  agents: () => readonly ScrapeTargets[],
  token?: BearerSecret,
  metrics = (): Promise<string> => registry.metrics(),
): FastifyInstance {
  const app = Fastify({ logger: false });
  app.addHook("onRequest", async (request, reply) => {
    if (!token || request.routeOptions.url === "/healthz" || token.matches(request.headers.authorization)) return;
    await reply.code(401).header("www-authenticate", "Bearer").send();
  });
  const seconds = new Histogram({
    name: "stoker_metrics_page_seconds",
    help: "Time to render and send a page, without the network",
    labelNames: ["page"],
    buckets: [0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 2],
    registers: [registry],
  });
  app.addHook("onResponse", async (request, reply) => {
    const { url } = request.routeOptions;
    if (url !== undefined) seconds.observe({ page: url }, reply.elapsedTime / 1000);
  });
  app.get("/metrics", async (_request, reply) => reply.type(registry.contentType).send(await metrics()));
  app.get("/metrics/targets", () => agents());
  app.get("/healthz", () => ({ status: "ok" }));
  return app;
}

/** Warns when other machines can read the pages without a token. Throws when the token's file cannot be read. */
export function createAdminPages(
  {
    admin,
    adminTokenFile,
  }: { readonly admin: { readonly host: string; readonly port: number }; readonly adminTokenFile: string | undefined },
  registry: Registry,
  targets: () => readonly ScrapeTargets[],
  log: Pick<Logger, "warn">,
  metrics?: () => Promise<string>,
): FastifyInstance {
  if (adminTokenFile === undefined && !isLoopbackHost(admin.host))
    log.warn({ host: admin.host }, "metrics are open to other machines: set STOKER_METRICS_TOKEN_FILE");
  return createAdminHttp(
    registry,
    targets,
    adminTokenFile === undefined ? undefined : readBearerSecret(adminTokenFile),
    metrics,
  );
}
