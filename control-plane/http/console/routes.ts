// /console: one page and its files, without a key. The page calls the other endpoints with the session cookie.
import { join } from "node:path";
import { Type } from "typebox";
import { builtFiles, sendBuiltFile } from "../core/built-files.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { consoleShell, type Installation } from "./shell.ts";

/** As `npm run build` writes it. Names below assets/ contain the hash of their content. */
const built = join(import.meta.dirname, "../../../console/dist");

export function addConsoleRoutes(endpoints: Endpoints, installation: Installation): void {
  const files = builtFiles(built);
  const shared = { method: "GET", tag: "service", access: "public", answer: Type.String(), isHidden: true } as const;

  for (const path of ["/console", "/console/*"]) {
    endpoints.addRaw({ ...shared, path, summary: "The console" }, async (_request, reply) => {
      const { page, headers, status } = consoleShell(
        (await files())?.get("index.html")?.bytes.toString(),
        installation,
      );
      return reply.code(status).headers(headers).serializer(String).send(page);
    });
  }

  endpoints.addRaw(
    { ...shared, path: "/console/assets/*", summary: "A file of the console" },
    async (request, reply) => {
      const { "*": name } = request.params as { "*": string };
      const file = (await files())?.get(`assets/${name}`);
      return file ? sendBuiltFile(request, reply, file, "immutable") : reply.callNotFound();
    },
  );
}
