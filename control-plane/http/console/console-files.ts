// Files of the console: our sources with types stripped, and the libraries they use. The version in each address is the hash of
// all files, so browsers may cache every file without limit and never mix two releases.
import { createHash } from "node:crypto";
import { glob, readFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { extname, join, sep } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const sources = join(import.meta.dirname, "../../../console");
/** Libraries that console/ imports. Imports are rewritten to addresses, because an import map would be an inline script. */
const libraries = ["preact", "preact/hooks", "htm"] as const;

const types: Readonly<Record<string, string>> = {
  ".ts": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
};

export interface ConsoleFile {
  readonly type: string;
  readonly bytes: Buffer;
}

export interface ConsoleFiles {
  readonly version: string;
  /** Files by the path after the version. */
  readonly files: ReadonlyMap<string, ConsoleFile>;
}

export const assetsPath = "/console/assets";

/** Returns a function that reads the files at its first call and keeps them. */
export function consoleFiles(): () => Promise<ConsoleFiles> {
  let read: Promise<ConsoleFiles> | undefined;
  return () => {
    read ??= readAll();
    // Retry at the next request: the disk may be readable again.
    read.catch(() => {
      read = undefined;
    });
    return read;
  };
}

async function readAll(): Promise<ConsoleFiles> {
  const files = new Map<string, ConsoleFile>();
  for await (const name of glob("**/*.{ts,css}", { cwd: sources })) {
    const path = name.split(sep).join("/");
    const text = await readFile(join(sources, name), "utf8");
    files.set(path, { type: types[extname(path)] as string, bytes: Buffer.from(served(path, text)) });
    // Each file takes about a millisecond of this thread, which also streams customers' requests.
    await nextTurn();
  }
  for (const name of libraries) {
    const text = await readFile(fileURLToPath(import.meta.resolve(name)), "utf8");
    files.set(vendored(name), {
      type: types[".ts"] as string,
      bytes: Buffer.from(withAddresses(vendored(name), text)),
    });
  }
  const hash = createHash("sha256");
  for (const path of [...files.keys()].sort()) hash.update(`${path}\0`).update((files.get(path) as ConsoleFile).bytes);
  const version = hash.digest("hex").slice(0, 16);
  return { version, files };
}

const served = (path: string, text: string) =>
  path.endsWith(".ts") ? withAddresses(path, stripTypeScriptTypes(text)) : text;

const bareImport = /\b(from|import)(\s*)(["'])(preact\/hooks|preact|htm)\3/g;

/** Rewrites imports of libraries to addresses relative to `path`. */
function withAddresses(path: string, text: string): string {
  const up = "../".repeat(path.split("/").length - 1) || "./";
  return text.replace(
    bareImport,
    (_, word, space, quote, name) => `${word}${space}${quote}${up}${vendored(name)}${quote}`,
  );
}
const vendored = (library: string) => `vendor/${library.replace("/", "-")}.js`;
