// /console: one page and its files, without a key. The page calls the other endpoints with the session cookie.
import { Type } from "typebox";
import type { Endpoints } from "../core/endpoint.ts";
import { assetsPath, type ConsoleFile, consoleFiles } from "./console-files.ts";
import { consoleShell, type Installation } from "./shell.ts";

export function addConsoleRoutes(endpoints: Endpoints, { isSignUpOpen, publicUrl }: Installation): void {
  const files = consoleFiles();
  const shared = { method: "GET", tag: "service", access: "public", answer: Type.String(), isHidden: true } as const;

  for (const path of ["/console", "/console/*"]) {
    endpoints.addRaw({ ...shared, path, summary: "The console" }, async (_request, reply) => {
      const { page, headers } = consoleShell(await files(), { isSignUpOpen, publicUrl });
      return reply.headers(headers).serializer(String).send(page);
    });
  }

  endpoints.addRaw(
    { ...shared, path: `${assetsPath}/:version/*`, summary: "A file of the console" },
    async (request, reply) => {
      const { version, "*": path } = request.params as { version: string; "*": string };
      const console = await files();
      const file: ConsoleFile | undefined = version === console.version ? console.files.get(path) : undefined;
      if (!file) return reply.callNotFound();
      return reply
        .headers({
          "content-type": file.type,
          "cache-control": "public, max-age=31536000, immutable",
          "x-content-type-options": "nosniff",
        })
        .send(file.bytes);
    },
  );
}
