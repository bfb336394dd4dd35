// Files that a build of `npm run build` has written for browsers, kept in memory with their compressed form.
import { createHash } from "node:crypto";
import { glob, readFile } from "node:fs/promises";
import { extname, join, sep } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".svg": "image/svg+xml",
};

export interface BuiltFile {
  readonly type: string;
  readonly bytes: Buffer;
  readonly compressed: Buffer;
  readonly etag: string;
}

/** Files by their path in the folder, with slashes. */
export type BuiltFiles = ReadonlyMap<string, BuiltFile>;

/** Returns a function that reads `folder` at its first call and keeps the files. Undefined: it was not built. */
export function builtFiles(folder: string): () => Promise<BuiltFiles | undefined> {
  let read: Promise<BuiltFiles> | undefined;
  return async () => {
    read ??= readAll(folder);
    try {
      return await read;
    } catch (error) {
      // Retry at the next request: it may be built, or the disk readable, by then.
      read = undefined;
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  };
}

async function readAll(folder: string): Promise<BuiltFiles> {
  const files = new Map<string, BuiltFile>([["index.html", await readOne(folder, "index.html")]]);
  for await (const name of glob(`**/*{${Object.keys(types).join(",")}}`, { cwd: folder })) {
    files.set(name.split(sep).join("/"), await readOne(folder, name));
    await nextTurn();
  }
  return files;
}

async function readOne(folder: string, name: string): Promise<BuiltFile> {
  const bytes = await readFile(join(folder, name));
  return {
    type: types[extname(name)] as string,
    bytes,
    // In threads of their own: this thread also streams customers' requests.
    compressed: await promisify(gzip)(bytes, { level: 9 }),
    etag: `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`,
  };
}

/** `immutable`: the address contains the hash of the content. `checked`: browsers ask each time whether it has changed. */
export function sendBuiltFile(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  { type, bytes, compressed, etag }: BuiltFile,
  caching: "immutable" | "checked",
): FastifyReply {
  const isCompressed = /\bgzip\b/.test(headers["accept-encoding"] ?? "");
  reply.headers({
    "content-type": type,
    "cache-control": caching === "immutable" ? "public, max-age=31536000, immutable" : "no-cache",
    "x-content-type-options": "nosniff",
    vary: "accept-encoding",
    etag: isCompressed ? etag.replace(/"$/, '-gzip"') : etag,
  });
  if (headers["if-none-match"] === reply.getHeader("etag")) return reply.code(304).send();
  if (isCompressed) reply.header("content-encoding", "gzip");
  return reply.send(isCompressed ? compressed : bytes);
}
