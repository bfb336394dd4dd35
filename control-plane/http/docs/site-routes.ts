// /docs: the documentation site, as `npm run build` writes it to docs/dist. Without a key.
import { join } from "node:path";
import { Type } from "typebox";
import { pagePolicy } from "../connections/secure-headers.ts";
import { builtFiles, sendBuiltFile } from "../core/built-files.ts";
import type { Endpoints } from "../core/endpoint.ts";

const built = join(import.meta.dirname, "../../../docs/dist");
const missing = `<!doctype html><html lang="en"><title>Stoker documentation</title>
<p>The documentation was not built. On the server, run <code>npm run build</code>, then reload this page. All operations are described in
<a href="/openapi.json">/openapi.json</a>.</p></html>
`;

/** `folder`: where the site was built. */
export function addDocsRoutes(endpoints: Endpoints, folder: string = built): void {
  const files = builtFiles(folder);
  const shared = { method: "GET", tag: "service", access: "public", answer: Type.String(), isHidden: true } as const;

  for (const path of ["/docs", "/docs/*"]) {
    endpoints.addRaw({ ...shared, path, summary: "The documentation" }, async (request, reply) => {
      const { "*": name = "" } = request.params as { readonly "*"?: string };
      const site = await files();
      reply.headers({ "content-security-policy": pagePolicy, "x-frame-options": "DENY" }).serializer(asIs);
      if (!site) return reply.code(503).type("text/html; charset=utf-8").send(missing);
      const asset = name.startsWith("assets/") ? site.get(name) : undefined;
      if (asset) return sendBuiltFile(request, reply, asset, "immutable");
      const page = site.get(`${name || "index"}.html`);
      if (page) return sendBuiltFile(request, reply, page, "checked");
      const notFound = site.get("404.html");
      return notFound ? sendBuiltFile(request, reply.code(404), notFound, "checked") : reply.callNotFound();
    });
  }
}

const asIs = (payload: unknown) => payload as string;
