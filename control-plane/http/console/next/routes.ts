// /console/next: one page and its files, without a key. The page calls the other endpoints with the session cookie.
import { Type } from "typebox";
import type { Endpoints } from "../../core/endpoint.ts";
import type { Installation } from "../shell.ts";
import { assetsPath, consoleFiles } from "./files.ts";
import { consoleShell } from "./shell.ts";

export function addNextConsoleRoutes(endpoints: Endpoints, installation: Installation): void {
  const files = consoleFiles();
  const shared = { method: "GET", tag: "service", access: "public", answer: Type.String(), isHidden: true } as const;

  for (const path of ["/console/next", "/console/next/*"]) {
    endpoints.addRaw({ ...shared, path, summary: "The new console" }, async (_request, reply) => {
      const { page, headers, status } = consoleShell((await files())?.page, installation);
      return reply.code(status).headers(headers).serializer(String).send(page);
    });
  }

  endpoints.addRaw(
    { ...shared, path: `${assetsPath}/*`, summary: "A file of the new console" },
    async (request, reply) => {
      const { "*": name } = request.params as { "*": string };
      const file = (await files())?.files.get(name);
      if (!file) return reply.callNotFound();
      const isCompressed = /\bgzip\b/.test(request.headers["accept-encoding"] ?? "");
      return reply
        .headers({
          "content-type": file.type,
          "cache-control": "public, max-age=31536000, immutable",
          "x-content-type-options": "nosniff",
          vary: "accept-encoding",
          ...(isCompressed ? { "content-encoding": "gzip" } : {}),
        })
        .send(isCompressed ? file.compressed : file.bytes);
    },
  );
}
